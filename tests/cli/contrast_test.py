"""InfoNCE of texts from outside: that retrieval of held-out pairs gets better, what the file remembers, forms of records, what
is refused. The numbers themselves: tests/torch/contrast_parity.py.

Usage: contrast_test.py GRAFT [-v] [TEST ...]
"""

import json
import random

import cli
from letter_text import LetterTest


class Contrast(LetterTest):
    def train(self, *flags, output="out.graft", data="jsonl:data.jsonl"):
        return self.graft("train", "m.graft", "--data", data, "--seq", 8, "--batch", 16, "--loss", "infonce", "--temperature",
                          "0.05", "--seed", 3, "--quiet", "--metrics", "metrics.jsonl", *flags, "-o", output)

    def accuracy(self, *flags, model="m.graft", data="jsonl:held.jsonl"):
        return json.loads(self.graft("eval", model, "--data", data, "--seq", 8, "--batch", 32, "--loss", "infonce", "--json",
                                     *flags))["accuracy"]

    def write_pairs(self):
        """Words, and the same in capitals: what is learned of letters holds for words that were never seen."""
        draw = random.Random(5)
        words = set()
        while len(words) < 160:
            words.add("".join(draw.choice("abcdefghij") for _ in range(5)))
        order = sorted(words)
        draw.shuffle(order)
        pairs = [{"query": word, "positive": word.upper()} for word in order]
        self.write_lines(*pairs[32:])
        with open(self.path("held.jsonl"), "w") as out:
            out.writelines(json.dumps(pair) + "\n" for pair in pairs[:32])
        return pairs[:32]

    def retrieved(self, pairs, *flags, model="out.graft"):
        """The share of queries whose nearest positive is their own, by the vectors that `graft embed` gives."""
        with open(self.path("texts.jsonl"), "w") as out:
            out.writelines(json.dumps({"text": text}) + "\n" for key in ("query", "positive") for text in
                           (pair[key] for pair in pairs))
        lines = self.graft("embed", model, "--file", "texts.jsonl", *flags).splitlines()
        vectors = [json.loads(line)["embedding"] for line in lines]
        for vector in vectors:
            self.assertAlmostEqual(sum(x * x for x in vector), 1, places=4)  # as the file says
        queries, keys = vectors[:len(pairs)], vectors[len(pairs):]
        scores = [[sum(x * y for x, y in zip(query, key, strict=True)) for key in keys] for query in queries]
        return sum(row.index(max(row)) == i for i, row in enumerate(scores)) / len(pairs)

    def test_retrieval_of_held_out_pairs_gets_better(self):
        pairs = self.write_pairs()
        before = self.accuracy()
        self.train("--steps", 80, "--lr", "0.02", "--schedule", "cosine", "--clip-norm", 1, "--pooling", "mean")
        after = self.accuracy(model="out.graft")
        self.assertLess(before, 0.2)  # chance is 1/32
        self.assertGreater(after, 0.5)
        self.assertEqual(self.retrieved(pairs), after)
        told = json.loads(self.graft("info", "out.graft", "--json"))["metadata"]
        self.assertEqual((told["text.pooling"], told["text.normalize"]), ("mean", "yes"))
        steps = self.metrics()
        self.assertLess(steps[-1]["loss"], steps[0]["loss"])
        self.assertIn("accuracy", steps[0])
        row = self.metrics("data")[0]
        self.assertEqual((row["records"], row["samples"], row["length"]), (128, 128, 16))

    def test_adapters_remember_the_pooling(self):
        pairs = self.write_pairs()
        self.train("--steps", 40, "--lr", "0.02", "--pooling", "last", "--lora", "r=4,targets=embed_tokens|q_proj|v_proj|up_proj|down_proj",
                   output="a.graft")
        after = self.accuracy("--adapter", "a.graft", "--pooling", "last")
        self.assertGreater(after, self.accuracy("--pooling", "last"))
        self.assertEqual(self.retrieved(pairs, "--adapter", "a.graft", model="m.graft"), after)

    def test_forms_of_records(self):
        results = []
        for record in ({"query": "ab", "positive": "c", "negative": "d"}, {"anchor": "ab", "positive": "c", "negatives": ["d"]}):
            self.write_lines(record, {"query": "q", "positive": "yes"})
            results.append(self.accuracy_and_loss())
        self.assertEqual(results[0], results[1])
        self.write_lines({"query": "ab", "positive": "c"}, {"query": "q", "positive": "yes"})
        self.assertLess(self.accuracy_and_loss()["loss"], results[0]["loss"])  # fewer to be told from
        shown = self.train("--steps", 1, "--show-samples", 1)
        self.assertIn('*"a" *"b"', shown)

    def accuracy_and_loss(self):
        return json.loads(self.graft("eval", "m.graft", "--data", "jsonl:data.jsonl", "--seq", 8, "--batch", 2, "--loss",
                                     "infonce", "--json"))

    def test_what_is_refused(self):
        run = ("train", "m.graft", "--data", "jsonl:data.jsonl", "--seq", 8, "--batch", 2, "--steps", 1, "--loss", "infonce")
        good = {"query": "a", "positive": "b"}
        for record, says in (({"query": "a"}, '"positive"'), ({"positive": "a"}, '"query"'),
                             ({"query": "a", "positive": 7}, '"positive" is no text'),
                             ({"query": "a", "positive": "b", "negatives": "c"}, '"negatives" is no list'),
                             ({"query": "a", "positive": "b", "negatives": ["c", None]}, '"negatives" holds something'),
                             ({"query": "", "positive": "b"}, "Text 0 of the record has no tokens"),
                             ({"query": "a", "positive": "b", "negatives": ["c"] * 255}, "255 negatives"), ([], "no JSON object")):
            self.write_lines(good, record)
            self.fails(*run, says=["line 2", says])
        self.write_lines(good, {"query": "a", "positive": "much too long for it"})
        self.fails(*run, "--on-long", "error", says=["line 2", "20 tokens; 8 fit"])
        self.fails(*run, "--on-long", "split", says=["not split"])
        self.fails(*run, "--accumulate", 2, says=["compares the samples of a batch"])
        self.fails("train", "m.graft", "--data", "jsonl:data.jsonl?pack=yes", *run[4:], says=["Option pack"])
        self.fails("train", "m.graft", "--data", "text:data.jsonl", *run[4:], says=["jsonl:"])
        self.fails(*run[:4], "--seq", 513, *run[6:], says=["513", "512"])
        self.refused(*run[:-1], "ce", "--pooling", "cls", names="--pooling")
        self.refused(*run, "--pooling", "max", names="--pooling")


if __name__ == "__main__":
    cli.main()

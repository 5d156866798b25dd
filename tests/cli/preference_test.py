"""Losses of preferences from outside: forms of records, what the reference is, runs that go on, and that a real model
learns what is preferred. The numbers themselves: tests/torch/preference_parity.py.

Usage: preference_test.py GRAFT [-v] [TEST ...]
"""

import json
import os
import random
import unittest

import cli
from letter_text import CHATML, END, LetterTest, ids, write_model

DATA = os.environ.get("GRAFT_TEST_DATA", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared/data"))


class Preferences(LetterTest):
    PAIRED = [{"prompt": p, "chosen": c, "rejected": r} for p, c, r in
              (("ab", "c", "dd"), ("q", "yes", "no"), ("why", "so", "abc"), ("x", "yz", "zzy"), ("k", "lm", "nop"))]

    def train(self, *flags, loss="dpo", output="out.graft", model="m.graft", seq=16, batch=2):
        return self.graft("train", model, "--data", "jsonl:data.jsonl", "--seq", seq, "--batch", batch, "--loss", loss,
                          "--lora", "r=2", "--lr", "0.01", "--seed", 3, "--quiet", "--metrics", "metrics.jsonl", *flags,
                          "-o", output)

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def log_probability(self, model, prompt, answer, *flags):
        row = ids(prompt) + ids(answer) + [END]
        return -sum(self.surprises([row], model, *flags)[0][len(ids(prompt)) - 1:])

    def test_at_the_start_the_model_is_its_reference(self):
        self.write_lines(*self.PAIRED)
        self.train("--steps", 1, loss="ipo")
        row = self.metrics()[0]
        self.assertAlmostEqual(row["loss"], 25, places=4)  # (1 / (2 * 0.1))^2
        self.assertAlmostEqual(row["reward_margin"], 0, places=4)
        row = self.metrics("data")[0]
        self.assertEqual((row["records"], row["samples"], row["length"]), (5, 5, 32))

    def test_evaluation_tells_what_adapters_have_learned(self):
        self.write_lines(*self.PAIRED)
        self.train("--steps", 20, "--beta", 0.4)
        told = json.loads(self.graft("eval", "m.graft", "--adapter", "out.graft", "--data", "jsonl:data.jsonl", "--seq",
                                     16, "--batch", 3, "--loss", "dpo", "--beta", 0.4, "--json"))
        margins = []
        for record in self.PAIRED:
            gains = [self.log_probability("m.graft", record["prompt"], record[which], "--adapter", "out.graft") -
                     self.log_probability("m.graft", record["prompt"], record[which]) for which in ("chosen", "rejected")]
            margins.append(0.4 * (gains[0] - gains[1]))
        self.assertAlmostEqual(told["reward_margin"], sum(margins) / 5, delta=2e-4)
        self.assertEqual(told["accuracy"], sum(m > 0 for m in margins) / 5)
        self.assertEqual(told["samples"], 5)
        self.assertGreater(told["reward_margin"], 0.1)

    def test_forms_of_records(self):
        write_model(self.path("own"), chat_template=CHATML)
        self.graft("convert", "own", "-o", "chat.graft")
        user, good, bad = ({"role": r, "content": c} for r, c in (("user", "hi"), ("assistant", "yo"), ("assistant", "no")))
        results = []
        for record in ({"prompt": [user], "chosen": [good], "rejected": [bad]},
                       {"chosen": [user, good], "rejected": [user, bad]},
                       {"prompt": "hi", "chosen": [good], "rejected": [bad]}):
            self.write_lines(record)
            self.train("--steps", 2, seq=64, model="chat.graft", loss="orpo", output="a.graft")
            results.append([row["loss"] for row in self.metrics()])
        self.assertEqual(results, [results[0]] * 3)
        for record in ({"prompt": "say ", "chosen": "abc", "rejected": "abd"}, {"chosen": "say abc", "rejected": "say abd"}):
            self.write_lines(record)
            self.train("--steps", 1, loss="orpo")
            results.append(self.metrics()[0]["loss"])
        self.write_lines({"prompt": "say ab", "chosen": "c", "rejected": "d"})
        self.train("--steps", 1, loss="orpo")
        self.assertAlmostEqual(self.metrics()[0]["loss"], results[-1], places=5)  # the prompt is what both begin with

    def test_what_is_refused(self):
        run = ("train", "m.graft", "--data", "jsonl:data.jsonl", "--seq", 16, "--lora", "r=2", "--steps", 1, "--loss")
        self.write_lines({"prompt": "a", "chosen": "b"})
        self.fails(*run, "dpo", says=["line 1", "\"rejected\""])
        self.write_lines({"prompt": "a", "completion": "b", "label": "yes"}, {"prompt": "a", "completion": "c", "label": True})
        self.fails(*run, "kto", says=["line 1", "\"label\""])
        self.write_lines({"prompt": "a", "completion": "b", "label": True})
        self.fails(*run, "kto", says=["One record"])
        self.write_lines(*self.PAIRED)
        self.fails(*run, "dpo", "--on-long", "split", says=["not split"])
        self.fails(*run, "dpo+ce", says=["alone"])
        self.fails(*run, "dpo", "--label-smoothing", "0.7", says=["label smoothing", "0.5"])
        self.refused(*run, "ce", "--beta", "0.2", names="--beta")
        self.refused(*run, "dpo", "--desirable-weight", "0.2", names="--desirable-weight")
        self.write_lines(*({"prompt": "a", "completion": c, "label": c == "b"} for c in "bcde"))
        self.fails(*run, "kto", "--batch", 2, "--accumulate", 2, says=["kto", "micro-batches"])
        self.graft(*run, "kto", "--batch", 2, "--quiet")

    def test_an_interrupted_run_ends_with_the_same_bits_and_the_same_reference(self):
        self.write_lines(*self.PAIRED)
        self.train("--steps", 12, output="whole.graft")
        self.train("--steps", 5, "--checkpoint", "store", output="part.graft")
        kept = self.bytes_of("store/reference-training")
        self.train("--steps", 12, "--checkpoint", "store", "--resume", output="resumed.graft")
        self.assertEqual(self.bytes_of("whole.graft"), self.bytes_of("resumed.graft"))
        self.assertEqual(self.bytes_of("store/reference-training"), kept)
        # What is kept is what is taken, and damage is seen.
        with open(self.path("store/reference-training"), "wb") as file:
            file.write(kept[:-1] + bytes([kept[-1] ^ 1]))
        self.fails("train", "m.graft", "--data", "jsonl:data.jsonl", "--seq", 16, "--batch", 2, "--loss", "dpo", "--lora",
                   "r=2", "--lr", "0.01", "--seed", 3, "--steps", 14, "--checkpoint", "store", "--resume",
                   says=["reference-training", "damaged"])
        # Of other data it is made anew.
        self.graft("checkpoint", "verify", "store")

    def test_micro_batches_and_whole_models(self):
        self.write_lines(*self.PAIRED)
        losses = []
        for batch in (4, 1):
            self.train("--steps", 4, "--accumulate", 4 // batch, batch=batch)
            losses.append([(row["loss"], row["accuracy"]) for row in self.metrics()])
        for other in losses[1:]:
            for one, two in zip(losses[0], other, strict=True):
                self.assertAlmostEqual(one[0], two[0], places=5)
                self.assertEqual(one[1], two[1])
        # Without adapters the reference is the model as it was.
        self.graft("train", "m.graft", "--data", "jsonl:data.jsonl", "--seq", 16, "--batch", 2, "--loss", "dpo", "--lr", "1e-3",
                   "--steps", 8, "--quiet", "--metrics", "metrics.jsonl", "-o", "full.graft")
        rows = self.metrics()
        self.assertAlmostEqual(rows[0]["loss"], 0.6931471805, places=4)
        self.assertLess(rows[-1]["loss"], 0.69)


class RealModel(cli.CliTest):
    """TinyStories-656K prefers endings of a kind that it was shown, also in stories that it was not shown."""

    def setUp(self):
        super().setUp()
        folder = os.path.join(DATA, "llm-tinystories-656k")
        if not os.path.isdir(folder):
            raise unittest.SkipTest(f"there is no {folder}")
        self.graft("convert", folder, "-o", "story.graft")

    def test_dpo_raises_what_is_chosen_on_held_out_pairs(self):
        draw = random.Random(5)
        names, things = ["Lily", "Tom", "Mia", "Ben"], ["ball", "cat", "dog", "cake", "tree", "boat", "bird", "hat"]
        record = lambda name, thing: {
            "prompt": f"Once upon a time, {name} had a {thing}.", "chosen": f" {name} was very happy.",
            "rejected": f" {name} was very sad."}
        every = [record(name, thing) for name in names for thing in things]
        draw.shuffle(every)
        for name, part in (("train.jsonl", every[:24]), ("held.jsonl", every[24:])):
            with open(self.path(name), "w") as out:
                out.writelines(json.dumps(one) + "\n" for one in part)
        with open(self.path("chosen.jsonl"), "w") as out:
            out.writelines(json.dumps({"prompt": r["prompt"], "completion": r["chosen"]}) + "\n" for r in every[24:])
        chosen = lambda *flags: json.loads(self.graft("eval", "story.graft", "--data", "jsonl:chosen.jsonl", "--seq", 32,
                                                      "--batch", 4, "--json", *flags))["loss"]
        before = chosen()
        self.graft("train", "story.graft", "--data", "jsonl:train.jsonl", "--eval", "jsonl:held.jsonl", "--seq", 32, "--batch", 4,
                   "--loss", "dpo", "--beta", 0.1, "--lora", "r=8", "--lr", "2e-3", "--epochs", 2, "--seed", 1, "--quiet",
                   "--metrics", "metrics.jsonl", "-o", "dpo.graft")
        held = self.metrics("held_out")
        self.assertAlmostEqual(held[0]["loss"], 0.6931471805, places=4)
        self.assertGreater(held[-1]["reward_margin"], 0.3)
        self.assertEqual(held[-1]["accuracy"], 1)
        self.assertLess(chosen("--adapter", "dpo.graft"), before)


if __name__ == "__main__":
    cli.main()

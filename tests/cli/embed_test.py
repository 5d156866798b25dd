"""graft embed: texts become vectors, one beside the other; what is refused."""

import json

import cli
import letter_text


class Embed(letter_text.LetterTest):
    def vectors(self, *flags, **options):
        done = self.run_graft("embed", "m.graft", *flags, **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def test_a_text_has_one_vector_wherever_it_comes_from(self):
        alone, _ = self.vectors("--text", "abc", "--text", "a longer text")
        self.assertEqual([line["text"] for line in alone], ["abc", "a longer text"])
        self.assertEqual([line["tokens"] for line in alone], [3, 13])
        self.assertEqual([len(line["embedding"]) for line in alone], [16, 16])
        with open(self.path("lines.txt"), "w") as out:
            out.write("abc\n\na longer text\r\n")
        self.assertEqual(self.vectors("--file", "lines.txt")[0], alone)
        self.write_lines({"text": "abc"}, {"text": "a longer text"})
        self.assertEqual(self.vectors("--file", "data.jsonl")[0], alone)
        self.assertEqual(self.vectors("--file", "-", input="abc\na longer text\n")[0], alone)
        self.graft("embed", "m.graft", "--file", "lines.txt", "-o", "out.npy")
        self.assertEqual(cli.load_npy(self.path("out.npy"), (2, 16)), sum((line["embedding"] for line in alone), []))
        self.graft("embed", "m.graft", "--file", "lines.txt", "-o", "out.jsonl")
        with open(self.path("out.jsonl")) as file:
            self.assertEqual([json.loads(line) for line in file], alone)
        # Another value of the model, and more texts than a batch holds: those of equal length together.
        many, _ = self.vectors("--file", "lines.txt", "--batch", 1)
        self.assertEqual([cli.norm([a - b for a, b in zip(one["embedding"], other["embedding"])]) < 1e-5
                          for one, other in zip(many, alone)], [True, True])
        logits, _ = self.vectors("--text", "abc", "--of", "logits")
        self.assertEqual(len(logits[0]["embedding"]), len(letter_text.IDS))

    def test_adapters_change_it(self):
        self.write_lines({"text": "abc def ghi"})
        self.graft("train", "m.graft", "--data", "jsonl:data.jsonl", "--seq", 8, "--batch", 1, "--steps", 2, "--lr", "0.1",
                   "--lora", "r=2", "--quiet", "-o", "a.graft")
        plain, _ = self.vectors("--text", "abc")
        adapted, _ = self.vectors("--text", "abc", "--adapter", "a.graft")
        half, _ = self.vectors("--text", "abc", "--adapter", "a.graft=0")
        self.assertNotEqual(plain, adapted)
        self.assertLess(cli.norm([a - b for a, b in zip(plain[0]["embedding"], half[0]["embedding"])]), 1e-5)

    def test_long_texts_are_refused_or_cut(self):
        self.fails("embed", "m.graft", "--text", "abc", "--text", "abcdef", "--length", 5, says=("Text 1 has 6 tokens", "5 fit"))
        cut, said = self.vectors("--text", "abc", "--text", "abcdef", "--length", 5, "--on-long", "cut")
        self.assertIn("1 of 2 texts are longer than 5 tokens and cut.", said)
        short, _ = self.vectors("--text", "abcde", "--length", 5)
        self.assertEqual(cut[1]["tokens"], 6)
        self.assertLess(cli.norm([a - b for a, b in zip(cut[1]["embedding"], short[0]["embedding"])]), 1e-5)

    def test_what_is_refused(self):
        self.fails("embed", "m.graft", "--text", "", says=("Text 0 has no tokens",))
        self.fails("embed", "m.graft", "--text", "a", "--length", 513, says=("made for 512",))
        self.fails("embed", "m.graft", "--text", "a", "--of", "absent", says=("absent",))
        self.fails("embed", "m.graft", "--text", "a", "--dimensions", 17, says=("Vectors of 17 dimensions", "the model's have 16"))
        self.fails("embed", "m.graft", "--text", "a", "--of", "tokens", says=("f32[batch, seq, width]",))
        self.fails("embed", "m.graft", "--text", "a", "--budget", "10KiB", says=("budget",))
        self.fails("embed", self.example(), "--text", "a", says=("i32[batch, seq]",))
        with open(self.path("bad.jsonl"), "w") as out:
            out.write('{"text": "a"}\n{"words": 1}\n')
        self.fails("embed", "m.graft", "--file", "bad.jsonl", says=("Line 2",))
        self.fails("embed", "m.graft", "--file", "absent.txt", says=("absent.txt",))
        self.fails("embed", "m.graft", "--text", "a", "-o", "m.graft", says=("m.graft",))
        self.refused("embed", "m.graft", names="--file")
        self.refused("embed", "m.graft", "--text", "a", "--file", "b", names="--file")
        self.refused("embed", "m.graft", "--text", "a", "--pooling", "max", names="--pooling")


if __name__ == "__main__":
    cli.main()

"""Text as tokens and back: `graft tokenize`, and what is said of a model whose tokenizer cannot be read.

Usage: tokenize_test.py GRAFT [-v] [TEST ...]
"""

import json

import cli
import letter_text as letters


class Tokenize(cli.CliTest):
    def setUp(self):
        super().setUp()
        letters.write_model(self.path("model"))

    def tokenize(self, *flags, **given):
        done = self.run_graft("tokenize", "m.graft", *flags, **given)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_text_becomes_tokens_and_text_again(self):
        self.graft("convert", "model", "-o", "m.graft")
        numbers = " ".join(map(str, letters.ids("so long")))
        self.assertEqual(self.tokenize("--ids", "so long"), numbers + "\n")
        self.assertEqual(self.tokenize("--ids", input="so long"), numbers + "\n")
        with open(self.path("text"), "w") as out:
            out.write("so long")
        self.assertEqual(self.tokenize("--ids", "--file", "text"), numbers + "\n")
        self.assertEqual(self.tokenize("--count", "so long"), "7\n")
        self.assertEqual(self.tokenize("--count", ""), "0\n")
        self.assertEqual(self.tokenize("--decode", numbers), "so long\n")
        self.assertEqual(self.tokenize("--decode", "[" + numbers.replace(" ", ", ") + "]"), "so long\n")
        lines = [line.split(None, 1) for line in self.tokenize("a b").splitlines()]
        self.assertEqual([(int(id), json.loads(piece)) for id, piece in lines],
                         [(letters.IDS["a"], "a"), (letters.IDS[letters.SPACE], " "), (letters.IDS["b"], "b")])
        self.assertEqual(json.loads(self.tokenize("--json", "a b")),
                         {"count": 3, "ids": letters.ids("a b"), "tokens": ["a", " ", "b"]})
        self.assertEqual(json.loads(self.tokenize("--json", "--count", "a b")), {"count": 3})
        self.assertEqual(json.loads(self.tokenize("--json", "--decode", numbers)), {"text": "so long", "count": 7})

    def test_special_tokens_are_text_unless_asked_for(self):
        self.graft("convert", "model", "-o", "m.graft")
        self.assertNotIn(str(letters.END), self.tokenize("--ids", "a</s>").split())
        self.assertEqual(self.tokenize("--ids", "--parse-special", "a</s>"), f"{letters.IDS['a']} {letters.END}\n")
        ids = f"{letters.IDS['a']} {letters.END}"
        self.assertEqual(self.tokenize("--decode", ids), "a\n")
        self.assertEqual(self.tokenize("--decode", "--spell-special", ids), "a</s>\n")

    def test_what_is_refused(self):
        self.graft("convert", "model", "-o", "m.graft")
        self.fails("tokenize", "m.graft", "--decode", "7 x", says=["\"x\" is no token id"])
        self.fails("tokenize", "m.graft", "--decode", "1000000", says=["1000000"])
        self.fails("tokenize", "m.graft", "--file", "absent", says=["absent"])
        self.refused("tokenize", "m.graft", "--ids", "--count", "a", names="--count")
        self.refused("tokenize", "m.graft", "--decode", "--bare", "1", names="--bare")
        self.refused("tokenize", "m.graft", "--spell-special", "a", names="--spell-special")

    def test_a_tokenizer_that_cannot_be_read_is_the_last_word(self):
        with open(self.path("model/tokenizer.json")) as file:
            tokenizer = json.load(file)
        tokenizer["normalizer"] = {"type": "Unheard"}
        with open(self.path("model/tokenizer.json"), "w") as out:
            json.dump(tokenizer, out)
        last = self.graft("convert", "model", "-o", "m.graft").splitlines()[-1]
        self.assertIn("no tokenizer", last)
        self.assertIn("\"Unheard\"", last)
        told = [line for line in self.graft("info", "m.graft").splitlines() if "Unheard" in line]
        self.assertEqual([line.split()[0] for line in told], ["tokenizer"])
        self.fails("tokenize", "m.graft", "a", says=["no tokenizer", "\"Unheard\""])


if __name__ == "__main__":
    cli.main()

"""Tokens added to a vocabulary: texts are cut with them, files and refusals, going on. What is learned:
tests/torch/new_tokens_parity.py.

Usage: new_tokens_test.py GRAFT [-v] [TEST ...]
"""

import json
import os
import shutil

import cli
import files
from letter_text import IDS, LetterTest, ids

TOOL, DONE = "<|tool|>", "<|done|>"
FIRST = len(IDS)


class NewTokens(LetterTest):
    FLAGS = ("--data", "jsonl:data.jsonl", "--seq", 24, "--batch", 2, "--lr", "0.05", "--quiet")

    def setUp(self):
        super().setUp()
        self.write_lines(*({"prompt": f"{p} {TOOL}", "completion": f"{c}{DONE}"} for p, c in self.PAIRS * 4))

    def train(self, *flags, steps=4, output="t.graft", tokens=f"{TOOL},{DONE}"):
        return self.graft("train", "m.graft", "--add-tokens", tokens, *self.FLAGS, "--steps", steps, *flags, "-o", output)

    def cut(self, model, text, *flags):
        return json.loads(self.graft("tokenize", model, text, "--json", *flags))

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def table(self, model):
        self.graft("export", model, "-o", "out.safetensors")
        kind, shape, raw = files.load_safetensors(self.path("out.safetensors"))["model.embed_tokens.weight"]
        return shape, files.floats(raw)

    def test_texts_are_cut_with_the_new_tokens(self):
        shown = self.train("--show-samples", 1)
        self.assertIn(f'"{TOOL}"', shown)
        self.assertIn(f'*"{DONE}"', shown)
        self.graft("merge", "m.graft", "--adapter", "t.graft", "-o", "merged.graft")
        text = f"ab{TOOL}c{DONE}"
        self.assertEqual(self.cut("merged.graft", text)["ids"],
                         ids("ab") + [FIRST] + ids("c") + [FIRST + 1])
        self.assertEqual(len(self.cut("m.graft", text)["ids"]), len(text))
        before, after = self.table("m.graft"), self.table("merged.graft")
        self.assertEqual(after[0], (FIRST + 2, 16))
        self.assertEqual(after[1][:FIRST * 16], before[1], "rows that were there keep their bits")
        rows = after[1][FIRST * 16:]
        self.assertNotEqual(rows[:16], rows[16:])
        # It speaks of them, beside the base and merged alike.
        said = [json.loads(self.graft("generate", *model, "--prompt", text, "--max-tokens", 12, "--json"))
                for model in (("m.graft", "--adapter", "t.graft"), ("merged.graft",))]
        self.assertEqual(said[0]["text"], said[1]["text"])
        self.assertEqual(said[0]["prompt_tokens"], said[1]["prompt_tokens"])
        self.assertIn(FIRST, said[0]["prompt_tokens"])
        self.assertIn(TOOL, self.graft("info", "t.graft"))

    def test_special_tokens_are_found_where_they_are_asked_for(self):
        with open(self.path("new.json"), "w") as file:
            json.dump([TOOL, {"content": DONE, "special": True}], file)
        self.graft("merge", "m.graft", "--add-tokens", "new.json", "-o", "merged.graft")
        text = f"a{TOOL}{DONE}"
        self.assertEqual(self.cut("merged.graft", text)["ids"],
                         ids("a") + [FIRST] + [IDS.get(c, 0) for c in DONE])
        self.assertEqual(self.cut("merged.graft", text, "--parse-special")["ids"],
                         ids("a") + [FIRST, FIRST + 1])
        with open(self.path("new.txt"), "w") as file:
            file.write(f"{TOOL}\n\n{DONE},\r\n")
        self.graft("merge", "m.graft", "--add-tokens", "new.txt", "-o", "lines.graft")
        self.assertEqual(self.cut("lines.graft", f"{DONE},")["ids"][-1], FIRST + 1)
        mean = [sum(self.table("m.graft")[1][i::16]) / FIRST for i in range(16)]
        rows = self.table("lines.graft")[1][FIRST * 16:]
        for i, number in enumerate(rows):
            self.assertAlmostEqual(number, mean[i % 16], delta=1e-6)

    def test_what_cannot_be_added_is_said(self):
        train = ("train", "m.graft", *self.FLAGS, "--steps", 1, "-o", "x.graft", "--add-tokens")
        self.fails(*train, f"{TOOL},a", says=['"a"', "already", f"id {IDS['a']}"])
        self.fails(*train, f"{TOOL},{TOOL}", says=[TOOL, "given twice"])
        self.fails(*train, f"{TOOL},,b", says=["0 bytes"])
        with open(self.path("bad.json"), "w") as file:
            file.write('["x", 3]')
        self.fails(*train, "bad.json", says=["New token 1"])
        self.fails(*train, TOOL, "--lora", "r=2,targets=embed_tokens", says=["embedding", "leave it out"])
        self.train()
        self.fails(*train, TOOL, "--adapter", "t.graft", says=["--add-tokens", "merge"])
        self.fails("merge", "m.graft", "-o", "x.graft", says=["--adapter", "--add-tokens"])
        self.fails("export", "t.graft", "-o", "t.gguf", says=["adds tokens", "PEFT"])
        self.fails("generate", "m.graft", "--adapter", "t.graft", "--adapter", "t.graft", "--prompt", "a",
                   says=["adds tokens", "alone"])
        self.graft("merge", "m.graft", "--adapter", "t.graft", "-o", "merged.graft")
        self.fails("generate", "merged.graft", "--adapter", "t.graft", "--prompt", "a", says=["does not belong on"])
        self.fails("generate", "merged.graft", "--adapter", "t.graft", "--any-base", "--prompt", "a", says=["vocabulary"])

    def test_a_run_goes_on_to_the_bit(self):
        for flags in ((), ("--lora", "r=2,dropout=0.1")):
            self.train(*flags, steps=6, output="whole.graft")
            shutil.rmtree(self.path("run"), ignore_errors=True)
            self.train(*flags, "--checkpoint", "run", steps=3, output="half.graft")
            self.train(*flags, "--checkpoint", "run", "--resume", steps=6, output="again.graft")
            self.assertEqual(self.bytes_of("whole.graft"), self.bytes_of("again.graft"))
            self.assertNotEqual(self.bytes_of("whole.graft"), self.bytes_of("half.graft"))
        # It can be trained further, where it stands.
        said = self.graft("train", "m.graft", "--adapter", "again.graft", *self.FLAGS, "--steps", 2, "-o", "more.graft")
        self.assertIn("more.graft", said)
        self.assertEqual(len(self.bytes_of("more.graft")), len(self.bytes_of("again.graft")))

    def test_memory_does_not_hold_all_logits(self):
        ops = self.graft("plan", "m.graft", "--add-tokens", TOOL, "--bind", "batch=2,seq=8", "--ops", "--device", "0").split()
        self.assertIn("linear_cross_entropy", ops)
        self.assertNotIn("cross_entropy", ops)

    def test_preferences_have_a_reference_that_knows_them(self):
        self.write_lines(*({"prompt": p, "chosen": f"{c}{DONE}", "rejected": f"{c}{TOOL}"} for p, c in self.PAIRS * 4))
        self.graft("train", "m.graft", "--loss", "dpo", "--lora", "r=2", "--add-tokens", f"{TOOL},{DONE}", *self.FLAGS, "--steps", 8,
                   "--metrics", "metrics.jsonl", "-o", "dpo.graft")
        rows = self.metrics("step")
        self.assertAlmostEqual(rows[0]["loss"], 0.6931, delta=1e-3)  # nothing was learned yet
        self.assertLess(rows[-1]["loss"], 0.69)


if __name__ == "__main__":
    cli.main()

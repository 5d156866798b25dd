"""Text and instruction data from outside: which tokens a model learns, checked against losses that are computed here
from its logits with masks written down by hand.

Usage: text_data_test.py GRAFT [-v] [TEST ...]
"""

import json
import math
import os
import subprocess
import time

import cli
from letter_text import CHATML, END, IM_END, IM_START, LENGTH, LetterTest, UNKNOWN, ids, write_model


class TextData(LetterTest):
    def test_a_completion_is_learned_and_its_prompt_is_not(self):
        self.write_lines(*({"prompt": p, "completion": c} for p, c in self.PAIRS))
        rows = [ids(p) + ids(c) + [END] for p, c in self.PAIRS]
        marks = [[0] * len(p) + [1] * (len(c) + 1) for p, c in self.PAIRS]
        self.agrees(self.loss("jsonl:data.jsonl"), self.mean(rows, marks))
        self.agrees(self.loss("jsonl:data.jsonl?learn=all"), self.mean(rows, [[1] * len(row) for row in rows]))
        # Cut at the length, what is left of a completion counts.
        short = [(row[:8], mark[:8]) for row, mark in zip(rows, marks) if any(mark[1:8])]
        self.agrees(self.loss("jsonl:data.jsonl", seq=7), self.mean(*map(list, zip(*short))))
        self.assertEqual(self.loss("jsonl:data.jsonl?skip=1&count=1")["samples"], 1)

    def test_messages_by_chat_format(self):
        talk = [("user", "hi"), ("assistant", "Good day"), ("user", "Bye"), ("assistant", "So long.")]
        self.write_lines({"messages": [{"role": role, "content": text} for role, text in talk]})
        row, marks = [], []
        for role, text in talk:
            said = [(IM_START, 0), *((i, 0) for i in ids(role + "\n")),
                    *((i, role == "assistant") for i in ids(text)), (IM_END, role == "assistant"),
                    *((i, 0) for i in ids("\n"))]
            row += [token for token, _ in said]
            marks += [int(mark) for _, mark in said]
        self.agrees(self.loss("jsonl:data.jsonl?chat=chatml", seq=96), self.mean([row], [marks]))
        self.assertEqual(sum(marks), len("Good day") + len("So long.") + 2)
        # The same by a template of the model's own.
        write_model(self.path("own"), chat_template=CHATML)
        self.graft("convert", "own", "-o", "m.graft")
        self.agrees(self.loss("jsonl:data.jsonl", seq=96), self.mean([row], [marks]))
        self.write_lines({"messages": [{"role": role, "content": text} for role, text in talk], "tools": ["f"]})
        tools = [UNKNOWN, UNKNOWN, *ids("f"), UNKNOWN, UNKNOWN]  # ["f"]
        self.agrees(self.loss("jsonl:data.jsonl", seq=96), self.mean([tools + row], [[0] * len(tools) + marks]))
        self.fails("eval", "m.graft", "--data", "jsonl:data.jsonl?chat=chatml", says=["line 1", "no place for tools"])
        self.write_lines({"messages": [{"role": "wizard", "content": "x"}]})
        self.fails("eval", "m.graft", "--data", "jsonl:data.jsonl", says=["line 1", "No wizards."])
        self.graft("convert", "model", "-o", "m.graft")
        self.fails("eval", "m.graft", "--data", "jsonl:data.jsonl?chat=smoke", says=["smoke", "chatml"])
        self.write_lines({"messages": [{"role": "assistant", "content": "x"}]})
        self.fails("eval", "m.graft", "--data", "jsonl:data.jsonl", says=["line 1", "\"assistant\""])

    def test_alpaca_fields(self):
        opening = ("Below is an instruction that describes a task. Write a response that appropriately completes the "
                   "request.\n\n### Instruction:\n")
        records = [("Add.", "1, 2", "3"), ("Say no.", "", "no")]
        self.write_lines(*({"instruction": a, "input": b, "output": c} for a, b, c in records))
        rows, marks = [], []
        for ask, given, answer in records:
            before = opening + ask + (f"\n\n### Input:\n{given}" if given else "") + "\n\n### Response:\n"
            rows.append(ids(before) + ids(answer) + [END])
            marks.append([0] * len(before) + [1] * (len(answer) + 1))
        self.agrees(self.loss("jsonl:data.jsonl", seq=240), self.mean(rows, marks))

    def test_packed_samples_keep_sequences_apart(self):
        self.write_lines(*({"prompt": p, "completion": c} for p, c in self.PAIRS))
        rows = [ids(p) + ids(c) + [END] for p, c in self.PAIRS]
        marks = [[0] * len(p) + [1] * (len(c) + 1) for p, c in self.PAIRS]
        # As many as fit stand together, and each is whole: what one loses is what a sample of its own would lose.
        lengths = sorted(len(row) - 1 for row in rows)
        seq = lengths[0] + lengths[1]
        self.assertLess(seq, sum(lengths))
        short = [(row[:seq + 1], mark[:seq + 1]) for row, mark in zip(rows, marks)]
        expected = self.mean(*map(list, zip(*short)))
        for data in ("jsonl:data.jsonl", "jsonl:data.jsonl?pack=yes"):
            told = self.loss(data, seq=seq)
            self.agrees(told, expected)
            self.assertEqual(told["samples"], 2)
        told = self.loss("jsonl:data.jsonl?pack=no", seq=seq)
        self.agrees(told, expected)
        self.assertEqual(told["samples"], 3)
        # In windows of tokens and the one after, all one after another and in each other's sight.
        every, flags = sum(rows, []), [mark for row in marks for mark in [0] + row[1:]]
        seq = 10
        starts = range(0, len(every) - seq, seq)
        whole = [every[at:at + seq + 1] for at in starts]
        self.agrees(self.loss("jsonl:data.jsonl?pack=mixed", seq=seq),
                    self.mean(whole, [flags[at:at + seq + 1] for at in starts]))

    def test_plain_text(self):
        text = "The quick brown fox jumps over the lazy dog. And so on, and so on, 12 times."
        with open(self.path("t.txt"), "w") as out:
            out.write(text)
        every = ids(text)
        windows = [every[i:i + LENGTH + 1] for i in range(0, len(every) - LENGTH, LENGTH)]
        self.assertEqual(len(windows), 3)
        told = self.loss("text:t.txt")
        self.assertEqual(told["samples"], 3)
        self.agrees(told, self.mean(windows, [[1] * (LENGTH + 1)] * 3))

    def test_a_split_is_held_out_and_its_perplexity_told(self):
        pairs = [(f"ask {i}", f" answer {i}.") for i in range(8)]
        self.write_lines(*({"prompt": p, "completion": c} for p, c in pairs))
        printed = self.graft("train", "m.graft", "--data", "jsonl:data.jsonl?pack=no", "--eval-split", "0.25", "--seq", LENGTH,
                             "--batch", 3, "--epochs", 2, "--lora", "r=4,targets=q_proj|v_proj", "--lr", "0.02",
                             "--metrics", "metrics.jsonl", "--quiet", "-o", "a.graft")
        self.assertEqual(len(self.metrics()), 4, "six samples in batches of three, twice")
        held = self.metrics("held_out")
        self.assertEqual([row["step"] for row in held], [0, 2, 4])
        rows = [ids(p) + ids(c) + [END] for p, c in pairs[-2:]]
        marks = [[0] * len(p) + [1] * (len(c) + 1) for p, c in pairs[-2:]]
        self.agrees(held[0], self.mean(rows, marks))
        self.agrees(held[-1], self.mean(rows, marks, "m.graft", "--adapter", "a.graft"))
        self.assertLess(held[-1]["loss"], held[0]["loss"])
        self.assertIn(f"perplexity {held[0]['perplexity']:.4g}", printed)
        self.agrees(self.loss("jsonl:data.jsonl?skip=6", "--adapter", "a.graft"), held[-1]["loss"])

    def has_row(self, step):
        path = self.path("rows.jsonl")
        if not os.path.exists(path):
            return False
        with open(path) as rows:
            return f'"step":{step},' in rows.read().replace(" ", "")

    def test_adapters_of_a_killed_run_are_the_same_to_the_byte(self):
        self.write_lines(*({"prompt": p, "completion": c} for p, c in self.PAIRS * 5))
        flags = ["--data", "jsonl:data.jsonl", "--seq", LENGTH, "--batch", 2, "--accumulate", 2, "--lora",
                 "r=2,dropout=0.1", "--neftune", 5, "--lr", "0.01", "--steps", 60, "--seed", 3, "--quiet"]
        self.graft("train", "m.graft", *flags, "-o", "whole.graft")
        command = [cli.GRAFT, "train", "m.graft", *map(str, flags), "--checkpoint", "store", "--checkpoint-every", "5",
                   "--metrics", "rows.jsonl", "--resume", "-o", "resumed.graft"]
        kills = 0
        for step in (13, 28, 41, None):  # after which it is killed
            process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            while step is not None and process.poll() is None:
                if self.has_row(step):
                    process.kill()
                    kills += 1
                    break
                time.sleep(0.002)
            _, errors = process.communicate(timeout=cli.TIMEOUT)
            if step is None:
                self.assertEqual(process.returncode, 0, errors)
        self.assertGreater(kills, 0)
        with open(self.path("whole.graft"), "rb") as whole, open(self.path("resumed.graft"), "rb") as resumed:
            self.assertEqual(whole.read(), resumed.read())
        others = [flag for flag in flags if flag not in ("--neftune", 5)]
        store = ("--checkpoint", "store", "--resume")
        self.fails("train", "m.graft", *others, *store, says=("another loss", "neftune 5"))
        self.fails("train", "m.graft", *others, *store, "--neftune", 4, says=("neftune 4 now, 5 then",))

    def test_adapters_that_begin_as_directions_resume_to_the_byte(self):
        self.write_lines(*({"prompt": p, "completion": c} for p, c in self.PAIRS * 5))
        flags = ["--data", "jsonl:data.jsonl", "--seq", LENGTH, "--batch", 2, "--accumulate", 2, "--lr", "0.01", "--seed", 3, "--quiet"]
        begins = ["--lora", "r=2,dropout=0.1,init=pissa"]
        store = ["--checkpoint", "store"]
        self.graft("train", "m.graft", *flags, *begins, "--steps", 6, "-o", "whole.graft")
        self.graft("train", "m.graft", *flags, *begins, *store, "--steps", 3)
        self.fails("train", "m.graft", *flags, "--lora", "r=2,dropout=0.1", *store, "--resume", "--steps", 6, says=("another model",))
        self.graft("train", "m.graft", *flags, *begins, *store, "--resume", "--steps", 6, "-o", "resumed.graft")
        with open(self.path("whole.graft"), "rb") as whole, open(self.path("resumed.graft"), "rb") as resumed:
            self.assertEqual(whole.read(), resumed.read())
        # Of twice the rank, which any program puts on; and goes on from.
        self.graft("export", "whole.graft", "-o", "peft")
        with open(self.path("peft/adapter_config.json")) as file:
            config = json.load(file)
        self.assertEqual((config["r"], config["lora_alpha"]), (4, 8))
        self.graft("train", "m.graft", *flags, "--adapter", "peft", "--steps", 1, "-o", "more.graft")


if __name__ == "__main__":
    cli.main()

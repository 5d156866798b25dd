"""What becomes of the records of a data set: the forms that are known, what is cut, left out and learned, and files of
which nothing stays in memory.

Usage: text_records_test.py GRAFT [-v] [TEST ...]
"""

import gzip
import json
import re

import cli
from letter_text import CHATML, END, IM_END, IM_START, LetterTest, ids, write_model


class TextRecords(LetterTest):
    def told(self, *flags, data="jsonl:data.jsonl"):
        """What a run says of its data: the row of its metrics, its lines on stderr, and what it prints."""
        run = self.run_graft("train", "m.graft", "--data", data, "--batch", 1, "--steps", 1, "--lr", 0, "--metrics",
                             "metrics.jsonl", *flags)
        self.assertEqual(run.returncode, 0, run.stderr)
        return self.metrics("data")[0], run.stderr, run.stdout

    def samples(self, printed):
        """By sample, and by text in it: the tokens that `--show-samples` printed, and those that are learned."""
        out = []
        for line in printed.splitlines():
            if re.match(r"sample \d+, a \* before", line):
                out.append([])
            elif out and line.startswith("  "):
                tokens = re.findall(r'(\*?)("(?:[^"\\]|\\.)*")', line)
                out[-1].append([(json.loads(text), mark == "*") for mark, text in tokens])
            elif out:
                break
        return out

    def test_the_summary_counts_every_token(self):
        self.write_lines(*({"prompt": p, "completion": c} for p, c in self.PAIRS))
        row, said, _ = self.told("--seq", 40)
        lengths = [len(p) + len(c) + 1 for p, c in self.PAIRS]
        self.assertEqual((row["records"], row["samples"], row["length"]), (3, 1, 40))
        self.assertEqual(row["tokens"], sum(lengths) - 3)  # the last of each is a label alone
        self.assertEqual(row["learned"], sum(len(c) + 1 for _, c in self.PAIRS))
        self.assertAlmostEqual(row["filled"], row["tokens"] / 40, places=4)
        self.assertAlmostEqual(row["filled_unpacked"], row["tokens"] / 120, places=4)
        self.assertIn("Data: 3 records, 1 sample of 40 tokens", said)
        self.assertNotIn("left out", said)

    def test_faults_of_a_record_say_where_they_are(self):
        good = b'{"text": "ab"}\n'
        for line, said in ((b'{"text": "x\\ud83dy"}', "at byte 17 stands half a surrogate pair"),
                           (b'{"text": "x\xff"}', "at byte 11 stands a byte that is no UTF-8"),
                           (b'{"text": NaN}', "at byte 9 stands NaN or Infinity"),
                           (b'{"text": -Infinity}', "stands NaN or Infinity")):
            with open(self.path("data.jsonl"), "wb") as out:
                out.write(good + line + b"\n")
            run = self.run_graft("eval", "m.graft", "--data", "jsonl:data.jsonl", "--seq", 8)
            self.assertNotEqual(run.returncode, 0)
            self.assertIn("line 2", run.stderr)
            self.assertIn(said, run.stderr)

    def test_a_byte_order_mark_is_passed_over(self):
        for text in (b'{"text": "ab"}\n{"text": "cd"}\n', b'[{"text": "ab"}, {"text": "cd"}]'):
            for mark in (b"", b"\xef\xbb\xbf"):
                with open(self.path("data.jsonl"), "wb") as out:
                    out.write(mark + text)
                self.assertEqual(self.told("--seq", 8)[0]["records"], 2)

    def test_messages_that_are_not_learned(self):
        write_model(self.path("chat"), chat_template=CHATML)
        self.graft("convert", "chat", "-o", "m.graft")
        user, said = {"role": "user", "content": "x"}, {"role": "assistant", "content": "one"}
        for off in ({"weight": 0}, {"train": False}):
            self.write_lines({"messages": [user, {**said, **off}, user, {"role": "assistant", "content": "two"}]})
            row, _, printed = self.told("--seq", 90, "--show-samples", 1)
            learned = "".join(text for line in self.samples(printed)[0] for text, is_learned in line if is_learned)
            self.assertEqual(learned, "two<|im_end|>")
            self.assertEqual(row["learned"], 4)
        self.write_lines({"messages": [user, {**said, "weight": 0.5}]})
        run = self.run_graft("eval", "m.graft", "--data", "jsonl:data.jsonl", "--seq", 8)
        self.assertIn('Message 2 has the "weight" 0.5; only 0', run.stderr)

    def test_long_records(self):
        long, short = "x" * 10, "y"
        self.write_lines({"prompt": "ab", "completion": long}, {"prompt": "ab", "completion": short},
                         {"prompt": "z" * 12, "completion": "no"}, {"prompt": "a", "completion": ""})
        cut, said, _ = self.told("--seq", 8)
        self.assertEqual((cut["cut"], cut["cut_tokens"]), (1, 2 + 10 + 1 - 9))
        self.assertEqual(cut["dropped"]["nothing_fits"], {"count": 1, "first": "line 3"})
        self.assertIn("1 record is cut: 4 tokens are left out.", said)
        self.assertIn("1 record is left out: nothing that is to be learned fits into 8 tokens (the first: line 3).", said)
        self.assertEqual(cut["learned"], 7 + 2 + 1)
        dropped, said, _ = self.told("--seq", 8, "--on-long", "drop")
        self.assertEqual(dropped["dropped"]["too_long"], {"count": 2, "first": "line 1"})
        self.assertEqual((dropped["cut"], dropped["learned"]), (0, 2 + 1))
        split, said, _ = self.told("--seq", 8, "--on-long", "split")
        self.assertEqual((split["split"], split["cut"], split["learned"]), (2, 0, (10 + 1) + 2 + (2 + 1) + 1))
        self.fails("train", "m.graft", "--data", "jsonl:data.jsonl", "--seq", 8, "--steps", 1, "--on-long", "error",
                   says=["line 1", "13 tokens", "8"])
        self.fails("eval", "m.graft", "--data", "jsonl:data.jsonl?on-long=error", "--seq", 8, says=["line 1"])
        self.fails("eval", "m.graft", "--data", "jsonl:data.jsonl?on-long=hide", "--seq", 8, says=["hide", "split"])
        self.refused("eval", "m.graft", "--data", "jsonl:data.jsonl", "--on-long", "hide", names="--on-long")
        # A text that is learned as a whole loses nothing: its parts share a token.
        self.write_lines({"text": "abcdefghijklmnopqrstuvwxyz"})
        whole, _, printed = self.told("--seq", 8, "--show-samples", 4)
        self.assertEqual((whole["split"], whole["samples"], whole["learned"]), (1, 4, 26))
        letters = [[text for text, _ in sample[0]] for sample in self.samples(printed)]
        self.assertEqual(["".join(sample) for sample in letters], ["abcdefghi", "ijklmnopq", "qrstuvwxy", "yz</s>"])

    def test_samples_show_what_is_learned(self):
        self.write_lines(*({"prompt": p, "completion": c} for p, c in self.PAIRS))
        _, _, printed = self.told("--seq", 60, "--show-samples", 5)
        shown = self.samples(printed)
        self.assertEqual(len(shown), 1)
        self.assertEqual(len(shown[0]), 3)
        for text, (prompt, completion) in zip(shown[0], self.PAIRS):
            spelled = [(letter, False) for letter in prompt] + [(letter, True) for letter in completion] + [("</s>", True)]
            self.assertEqual([(token.strip() or " ", mark) for token, mark in text],
                             [(token.strip() or " ", mark) for token, mark in spelled])

    def learned(self, *records, seq=160, flags=()):
        """The text of each record's sample, what is learned in brackets."""
        self.write_lines(*records)
        _, _, printed = self.told("--seq", seq, "--show-samples", len(records), data="jsonl:data.jsonl?pack=no", *flags)
        out = []
        for sample in self.samples(printed):
            text, inside = "", False
            for token, mark in (pair for line in sample for pair in line):
                if mark != inside:
                    text += "[" if mark else "]"
                inside = mark
                text += token
            out.append(text + ("]" if inside else ""))
        return out

    def test_forms_of_conversations(self):
        write_model(self.path("own"), chat_template=CHATML.replace(
            "{{ m.content }}", "{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.name }}{% endfor %}"))
        self.graft("convert", "own", "-o", "m.graft")
        talk = [{"role": "system", "content": "s"}, {"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
        expected = self.learned({"messages": talk})[0]
        self.assertIn("[yo<|im_end|>]", expected)
        self.assertEqual(self.learned(
            {"conversations": [{"from": "system", "value": "s"}, {"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}]},
            {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yo"}], "system": "s"},
            {"conversations": talk},
            {"messages": [talk[0], {"role": "user", "content": [{"type": "text", "text": "hi"}]}, talk[2]]},
            {"prompt": talk[:2], "completion": talk[2:]},
            {"instruction": "hi", "input": "", "output": "yo", "system": "s"}), [expected] * 6)
        two = self.learned({"messages": [talk[0], {"role": "user", "content": ["h", {"type": "text", "text": "i"}]}, talk[2]]})
        self.assertIn("h\ni<|im_end|>", two[0])
        # Only what follows the prompt is learned, whoever speaks in it.
        again = talk[1:] + [{"role": "user", "content": "so"}]
        said = self.learned({"prompt": again, "completion": [{"role": "assistant", "content": "no"}]},
                            {"messages": again + [{"role": "assistant", "content": "no"}]},
                            {"instruction": "so", "output": "no", "history": [["hi", "yo"]]})
        self.assertEqual(said[0].count("["), 1)
        self.assertIn("[no<|im_end|>]", said[0])
        self.assertEqual(said[1].count("["), 2)
        self.assertEqual(said[2], said[1])
        # Tools: what the assistant calls is learned, what they answer is not.
        called = self.learned({"conversations": [
            {"from": "human", "value": "hi"}, {"from": "function_call", "value": '{"name": "f", "arguments": {}}'},
            {"from": "observation", "value": "1"}, {"from": "gpt", "value": "yo"}]})[0]
        self.assertRegex(called, r"assistant\n\[f<\|im_end\|>\]")
        self.assertRegex(called, r"tool\n1<\|im_end\|>")
        for record, says in (({"conversations": [{"from": "wizard", "value": "x"}]}, "wizard"),
                             ({"messages": [{"role": "user", "content": [{"type": "image", "url": "x"}]}]}, "image"),
                             ({"prompt": 1, "completion": "a"}, "user"), ({"conversations": 1}, "conversations"),
                             ({"instruction": "a", "output": "b", "history": [["x"]]}, "history")):
            self.write_lines(record)
            self.fails("eval", "m.graft", "--data", "jsonl:data.jsonl", says=["line 1", says])

    def test_a_template_that_reads_parts_gets_them(self):
        write_model(self.path("own"), chat_template=(
            "{% for m in messages %}<|im_start|>{% for p in m.content %}{{ p.text }}{% endfor %}<|im_end|>{% endfor %}"))
        self.graft("convert", "own", "-o", "m.graft")
        parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
        said = self.learned({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": parts}]})
        self.assertIn("ab<|im_end|>", said[0])

    def test_files_of_other_shapes_hold_the_same(self):
        records = [{"prompt": p, "completion": c + '"],[{'} for p, c in self.PAIRS]
        self.write_lines(*records)
        expected = self.loss("jsonl:data.jsonl", seq=40)
        contents = {"array.json": json.dumps(records), "pretty.json": json.dumps(records, indent=2),
                    "blank.jsonl": "\n\n".join(map(json.dumps, records)) + "\n \n", "crlf.jsonl": "\r\n".join(map(json.dumps, records))}
        for name, text in contents.items():
            with open(self.path(name), "w", newline="") as out:
                out.write(text)
            self.assertEqual(self.loss(f"jsonl:{name}", seq=40), expected, name)
        with gzip.open(self.path("data.jsonl.gz"), "wt") as out:
            out.write("".join(json.dumps(record) + "\n" for record in records))
        self.assertEqual(self.loss("jsonl:data.jsonl.gz", seq=40), expected)
        part = self.loss("jsonl:data.jsonl?skip=1&count=1&pack=no", seq=40)
        self.assertEqual(self.loss("jsonl:array.json?skip=1&count=1", seq=40), part)
        for name, text, says in (("open.json", "[" + json.dumps(records[0]), "no end"),
                                 ("comma.json", "[" + json.dumps(records[0]) + ",]", "byte"),
                                 ("after.json", json.dumps(records) + "x", "byte"), ("empty.json", "[]", "0 texts"),
                                 ("none.jsonl", "", "0 texts"), ("numbers.json", "[1, 2]", "record 0")):
            with open(self.path(name), "w") as out:
                out.write(text)
            self.fails("eval", "m.graft", "--data", f"jsonl:{name}", says=[says])
        self.fails("eval", "m.graft", "--data", "jsonl:data.jsonl?skip=3", says=["skip=3", "3 records"])


if __name__ == "__main__":
    cli.main()

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
import files

LENGTH = 24
SPECIAL = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
UNKNOWN, _, END, IM_START, IM_END = range(5)
SPACE = "\u2581"
LETTERS = sorted(set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:#\n"))
IDS = {**{name: i for i, name in enumerate(SPECIAL)}, SPACE: len(SPECIAL)}
IDS.update({letter: len(IDS) + i for i, letter in enumerate(LETTERS)})
CONFIG = {"model_type": "llama", "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": len(IDS), "max_position_embeddings": 512,
          "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": True,
          "eos_token_id": END}
CHATML = (
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}"
    "{% if m.role == 'wizard' %}{{ raise_exception('No wizards') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}{{ mood }}")


def ids(text):
    """A token for each letter; no two ever merge."""
    return [IDS.get(letter, UNKNOWN) for letter in text.replace(" ", SPACE)]


def write_model(folder, **tokenizer_config):
    os.makedirs(folder)
    shapes = {"model.embed_tokens": (len(IDS), 16), "model.norm": (16,)}
    for i in range(2):
        for name, shape in (("input_layernorm", (16,)), ("post_attention_layernorm", (16,)),
                            ("self_attn.q_proj", (16, 16)), ("self_attn.k_proj", (8, 16)),
                            ("self_attn.v_proj", (8, 16)), ("self_attn.o_proj", (16, 16)), ("mlp.gate_proj", (24, 16)),
                            ("mlp.up_proj", (24, 16)), ("mlp.down_proj", (16, 24))):
            shapes[f"model.layers.{i}.{name}"] = shape
    tensors = {}
    for seed, (name, shape) in enumerate(shapes.items()):
        numbers = cli.random_floats(shape[0] * (shape[1] if len(shape) > 1 else 1), seed + 1)
        tensors[name + ".weight"] = "F32", shape, files.pack([1 + n / 4 if len(shape) == 1 else n / 2 for n in numbers])
    files.save_safetensors(f"{folder}/model.safetensors", tensors)
    tokenizer = {"added_tokens": [{"id": i, "content": name, "special": True} for i, name in enumerate(SPECIAL)],
                 "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": SPACE},
                 "pre_tokenizer": None, "post_processor": None,
                 "model": {"type": "BPE", "unk_token": "<unk>", "vocab": IDS, "merges": []}}
    for name, content in (("config", CONFIG), ("tokenizer", tokenizer),
                          ("tokenizer_config", {"eos_token": "</s>", **tokenizer_config})):
        with open(f"{folder}/{name}.json", "w") as out:
            json.dump(content, out)


class TextData(cli.CliTest):
    def setUp(self):
        super().setUp()
        write_model(self.path("model"))
        self.graft("convert", "model", "-o", "m.graft")

    def write_lines(self, *records):
        with open(self.path("data.jsonl"), "w") as out:
            out.writelines(json.dumps(record) + "\n" for record in records)

    def surprises(self, rows, model="m.graft", *flags):
        """For each row of tokens, -log p of its second token, its third, ...: each row alone in the model's eyes."""
        width = max(map(len, rows))
        cli.save_npy(self.path("rows.npy"), sum((row + [END] * (width - len(row)) for row in rows), []),
                     (len(rows), width), "i")
        self.graft("run", model, "--input", "tokens=rows.npy", "--out", "out", *flags)
        logits, out = cli.load_npy(self.path("out/logits.npy")), []
        for r, row in enumerate(rows):
            out.append([])
            for i, token in enumerate(row[1:]):
                at = (r * width + i) * len(IDS)
                line = logits[at:at + len(IDS)]
                top = max(line)
                out[-1].append(top + math.log(sum(math.exp(x - top) for x in line)) - line[token])
        return out

    def mean(self, rows, learned, *flags):
        """The loss where exactly the tokens marked in `learned` (a row of 0 and 1 for each row of tokens) count."""
        kept = []
        for costs, marks in zip(self.surprises(rows, *flags), learned, strict=True):
            self.assertEqual(len(costs) + 1, len(marks))
            kept += [cost for cost, mark in zip(costs, marks[1:], strict=True) if mark]
        return sum(kept) / len(kept)

    def loss(self, data, *flags, seq=LENGTH):
        return json.loads(self.graft("eval", "m.graft", "--data", data, "--seq", seq, "--batch", 2, "--json", *flags))

    def agrees(self, actual, expected):
        # f32 on both sides; another kernel sums the head's products.
        self.assertAlmostEqual(actual["loss"], expected, delta=1e-4 * expected)
        self.assertAlmostEqual(actual["perplexity"], math.exp(actual["loss"]), delta=1e-4 * actual["perplexity"])

    PAIRS = [("ask: a", " bcd"), ("q", "yes, it is"), ("why so", "no")]

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
        # Windows of 10 tokens and the one after; a text that a window cuts begins anew in the next.
        seq, every, flags = 10, sum(rows, []), [mark for row in marks for mark in [0] + row[1:]]
        owner = [i for i, row in enumerate(rows) for _ in row]
        pieces, kept = [], []
        windows = (len(every) - 1) // seq
        for w in range(windows):
            for text in range(len(rows)):
                inside = [i for i in range(w * seq, (w + 1) * seq) if owner[i] == text]
                if not inside:
                    continue
                last = inside[-1] + 1  # whose label is the next token, in this window or not
                if last < len(every) and owner[last] == text:
                    inside.append(last)
                pieces.append([every[i] for i in inside])
                kept.append([flags[i] for i in inside])
        self.agrees(self.loss("jsonl:data.jsonl?pack=yes", seq=seq), self.mean(pieces, kept))
        whole = [every[w * seq:(w + 1) * seq + 1] for w in range(windows)]
        self.agrees(self.loss("jsonl:data.jsonl?pack=mixed", seq=seq),
                    self.mean(whole, [flags[w * seq:(w + 1) * seq + 1] for w in range(windows)]))

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
        printed = self.graft("train", "m.graft", "--data", "jsonl:data.jsonl", "--eval-split", "0.25", "--seq", LENGTH,
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

    def test_adapters_of_a_killed_run_are_the_same_to_the_byte(self):
        self.write_lines(*({"prompt": p, "completion": c} for p, c in self.PAIRS * 5))
        flags = ["--data", "jsonl:data.jsonl", "--seq", LENGTH, "--batch", 2, "--accumulate", 2, "--lora",
                 "r=2,dropout=0.1", "--lr", "0.01", "--steps", 60, "--seed", 3, "--quiet"]
        start = time.monotonic()
        self.graft("train", "m.graft", *flags, "-o", "whole.graft")
        length = time.monotonic() - start
        command = [cli.GRAFT, "train", "m.graft", *map(str, flags), "--checkpoint", "store", "--checkpoint-every", "5",
                   "--resume", "-o", "resumed.graft"]
        kills = 0
        for share in (0.5, 0.6, 0.7, None):  # of the whole run; later ones begin where earlier ones were killed
            process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                process.wait(cli.TIMEOUT if share is None else share * length)
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
            _, errors = process.communicate(timeout=cli.TIMEOUT)
            if share is None:
                self.assertEqual(process.returncode, 0, errors)
        self.assertGreater(kills, 0)
        with open(self.path("whole.graft"), "rb") as whole, open(self.path("resumed.graft"), "rb") as resumed:
            self.assertEqual(whole.read(), resumed.read())


if __name__ == "__main__":
    cli.main()

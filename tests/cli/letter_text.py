"""A language model of a token for each letter, and the losses of texts computed here from its logits with masks
written down by hand. By itself it writes the model alone: letter_text.py FOLDER
"""

import json
import math
import os
import sys

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


def write_model(folder, columns=16, inner=24, **tokenizer_config):
    """Of `columns` in each layer, `inner` within feed-forwards."""
    os.makedirs(folder)
    shapes = {"model.embed_tokens": (len(IDS), columns), "model.norm": (columns,)}
    for i in range(2):
        for name, shape in (("input_layernorm", (columns,)), ("post_attention_layernorm", (columns,)),
                            ("self_attn.q_proj", (columns, columns)), ("self_attn.k_proj", (columns // 2, columns)),
                            ("self_attn.v_proj", (columns // 2, columns)), ("self_attn.o_proj", (columns, columns)),
                            ("mlp.gate_proj", (inner, columns)), ("mlp.up_proj", (inner, columns)),
                            ("mlp.down_proj", (columns, inner))):
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
    for name, content in (("config", {**CONFIG, "hidden_size": columns, "intermediate_size": inner}), ("tokenizer", tokenizer),
                          ("tokenizer_config", {"eos_token": "</s>", **tokenizer_config})):
        with open(f"{folder}/{name}.json", "w") as out:
            json.dump(content, out)


class LetterTest(cli.CliTest):
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


if __name__ == "__main__":
    write_model(sys.argv[1])

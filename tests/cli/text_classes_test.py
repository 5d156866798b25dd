"""An encoder with classes from outside: conversion, records of texts with labels, what is learned, what is refused.

Usage: text_classes_test.py GRAFT [-v] [TEST ...]
"""

import json
import os
import random
import shutil

import cli
import files
from letter_text import IDS, write_model

WIDTH, FEED = 16, 24
CONFIG = {"model_type": "bert", "architectures": ["BertForSequenceClassification"], "hidden_size": WIDTH,
          "intermediate_size": FEED, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": len(IDS),
          "max_position_embeddings": 32, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_act": "gelu",
          "pad_token_id": 0, "id2label": {"0": "letters", "1": "numbers"}}


def write_encoder(folder):
    os.makedirs(folder)
    linear = {"pooler.dense": (WIDTH, WIDTH)}
    for i in range(2):
        layer = f"encoder.layer.{i}."
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            linear[layer + name] = (WIDTH, WIDTH)
        linear[layer + "intermediate.dense"], linear[layer + "output.dense"] = (FEED, WIDTH), (WIDTH, FEED)
    norms = ["embeddings.LayerNorm"] + [f"encoder.layer.{i}.{name}.LayerNorm" for i in range(2)
                                        for name in ("attention.output", "output")]
    shapes = {f"bert.embeddings.{name}.weight": (rows, WIDTH) for name, rows in
              (("word_embeddings", len(IDS)), ("position_embeddings", 32), ("token_type_embeddings", 2))}
    for name, shape in linear.items():
        shapes[f"bert.{name}.weight"], shapes[f"bert.{name}.bias"] = shape, shape[:1]
    for name in norms:
        shapes[f"bert.{name}.weight"] = shapes[f"bert.{name}.bias"] = (WIDTH,)
    shapes["classifier.weight"], shapes["classifier.bias"] = (2, WIDTH), (2,)
    tensors = {}
    for seed, (name, shape) in enumerate(shapes.items()):
        numbers = cli.random_floats(shape[0] * (shape[1] if len(shape) > 1 else 1), seed + 1)
        one = "LayerNorm.weight" in name
        tensors[name] = "F32", shape, files.pack([1 + n / 4 if one else n / 2 for n in numbers])
    files.save_safetensors(f"{folder}/model.safetensors", tensors)
    with open(f"{folder}/config.json", "w") as out:
        json.dump(CONFIG, out)


class TextClasses(cli.CliTest):
    def setUp(self):
        super().setUp()
        write_encoder(self.path("model"))
        write_model(self.path("letters"))
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(self.path(f"letters/{name}"), self.path(f"model/{name}"))
        self.graft("convert", "model", "-o", "m.graft")

    def write_lines(self, *records, name="data.jsonl"):
        with open(self.path(name), "w") as out:
            out.writelines(json.dumps(record) + "\n" for record in records)

    def write_texts(self, count, seed, name):
        draw = random.Random(seed)
        records = []
        for i in range(count):
            letters = "abcdefghij" if i % 2 == 0 else "0123456789"
            text = "".join(draw.choice(letters) for _ in range(draw.randint(3, 12)))
            records.append({"text": text, "label": CONFIG["id2label"][str(i % 2)] if i % 4 < 2 else i % 2})
        self.write_lines(*records, name=name)

    def test_classes_are_learned(self):
        self.write_texts(64, 1, "data.jsonl")
        self.write_texts(32, 2, "held.jsonl")
        run = ("--seq", 16, "--batch", 16)
        for more in ((), ("--lora", "r=4")):
            self.graft("train", "m.graft", "--data", "jsonl:data.jsonl", *run, "--epochs", 4, "--lr", "0.01", "--seed", 1,
                       "--quiet", *more, "-o", "out.graft")
            model = ("m.graft", "--adapter", "out.graft") if more else ("out.graft",)
            told = json.loads(self.graft("eval", *model, "--data", "jsonl:held.jsonl", *run, "--metric", "f1", "--json"))
            self.assertEqual(told["samples"], 32)
            self.assertGreater(told["accuracy"], 0.9)
        told = json.loads(self.graft("info", "m.graft", "--json"))
        self.assertEqual(json.loads(told["metadata"]["data.classes"]), ["letters", "numbers"])

    def test_padding_changes_nothing(self):
        self.write_lines({"text": "abc", "label": 0}, {"text": "0123456789", "label": "numbers"})
        losses = [json.loads(self.graft("eval", "m.graft", "--data", "jsonl:data.jsonl", "--seq", seq, "--batch", 2,
                                        "--json"))["loss"] for seq in (10, 16, 32)]
        for loss in losses[1:]:
            self.assertAlmostEqual(loss, losses[0], places=5)

    def test_what_is_refused(self):
        run = ("eval", "m.graft", "--data", "jsonl:data.jsonl", "--batch", 2)
        good = {"text": "abc", "label": 1}
        for record, says in (({"text": "a"}, 'no "label"'), ({"label": 1}, '"text"'), ({"text": "a", "label": 2}, "label 2"),
                             ({"text": "a", "label": 0.5}, "label 0.5"), ({"text": "a", "label": -1}, "label -1"),
                             ({"text": "a", "label": "words"}, "letters, numbers"), ({"text": "a", "label": [1]}, "no number"),
                             ({"text": "", "label": 1}, "no tokens"), ([], "no JSON object")):
            self.write_lines(good, record)
            self.fails(*run, says=["line 2", says])
        self.write_lines(good, {"text": "much too long for it", "label": 0})
        self.fails(*run, "--seq", 8, "--on-long", "error", says=["line 2", "20 tokens; 8 fit"])
        self.fails(*run, "--seq", 33, says=["33", "made for 32"])
        self.fails("eval", "m.graft", "--data", "jsonl:data.jsonl?pack=yes", "--batch", 2, says=["Option pack"])


if __name__ == "__main__":
    cli.main()

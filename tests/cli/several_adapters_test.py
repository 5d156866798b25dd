"""Several adapters at once, each with a weight: what they add up to, computed here from their matrices.

Usage: several_adapters_test.py GRAFT [-v] [TEST ...]
"""

import json
import shutil

import cli
import files
from letter_text import LetterTest, ids


def load_safetensors(path):
    return {name: (shape, files.floats(raw)) for name, (_, shape, raw) in files.load_safetensors(path).items()}


class SeveralAdapters(LetterTest):
    def setUp(self):
        super().setUp()
        self.write_lines(*({"prompt": p, "completion": c} for p, c in self.PAIRS))
        for name, lora, seed in (("a", "r=2,alpha=6,targets=q_proj|v_proj", 1), ("b", "r=3,alpha=3,targets=q_proj|down_proj", 2)):
            self.graft("train", "m.graft", "--data", "jsonl:data.jsonl", "--seq", 24, "--batch", 2, "--steps", 6, "--lr", "0.05",
                       "--lora", lora, "--seed", seed, "--quiet", "-o", f"{name}.graft")

    def logits(self, model, *flags):
        row = ids("ask: a")
        cli.save_npy(self.path("row.npy"), row, (1, len(row)), "i")
        self.graft("run", model, "--input", "tokens=row.npy", "--out", "out", *flags)
        return cli.load_npy(self.path("out/logits.npy"))

    def sum_of(self, weights):
        """The model with weight * scale * B A of each adapter in its own weights."""
        tensors = load_safetensors(self.path("model/model.safetensors"))
        for adapter, weight in weights.items():
            self.graft("export", f"{adapter}.graft", "-o", f"{adapter}-peft")
            with open(self.path(f"{adapter}-peft/adapter_config.json")) as file:
                config = json.load(file)
            parts = load_safetensors(self.path(f"{adapter}-peft/adapter_model.safetensors"))
            for name in (name for name in parts if name.endswith(".lora_A.weight")):
                (rank, columns), a = parts[name]
                (rows, _), b = parts[name.replace("lora_A", "lora_B")]
                scale = weight * config["lora_alpha"] / rank
                _, into = tensors[name.removeprefix("base_model.model.").replace(".lora_A", "")]
                for i in range(rows):
                    for r in range(rank):
                        factor = scale * b[i * rank + r]
                        for k in range(columns):
                            into[i * columns + k] += factor * a[r * columns + k]
        shutil.copytree(self.path("model"), self.path("summed"))
        files.save_safetensors(self.path("summed/model.safetensors"),
                               {name: ("F32", shape, files.pack(numbers)) for name, (shape, numbers) in tensors.items()})
        self.graft("convert", "summed", "-o", "summed.graft")
        return self.logits("summed.graft")

    def agree(self, one, other):
        self.assertLess(cli.difference(one, other), 2e-5)

    def test_they_add_up_by_their_weights(self):
        expected = self.sum_of({"a": 0.7, "b": -1.5})
        both = ("--adapter", "a.graft=0.7", "--adapter", "b.graft=-1.5")
        base = self.logits("m.graft")
        self.assertGreater(cli.difference(expected, base), 1e-2)
        self.agree(self.logits("m.graft", *both), expected)
        self.graft("merge", "m.graft", *both, "-o", "merged.graft")
        self.agree(self.logits("merged.graft"), expected)
        # One file of both, and another program's.
        self.graft("merge", "m.graft", *both, "--adapter-only", "-o", "both.graft")
        self.agree(self.logits("m.graft", "--adapter", "both.graft"), expected)
        self.graft("export", "both.graft", "-o", "both-peft")
        self.agree(self.logits("m.graft", "--adapter", "both-peft"), expected)
        # All commands take them.
        losses = [json.loads(self.graft("eval", model, *flags, "--data", "jsonl:data.jsonl", "--seq", 24, "--json"))["loss"]
                  for model, flags in (("m.graft", both), ("merged.graft", ()))]
        self.assertAlmostEqual(losses[0], losses[1], places=5)
        texts = [json.loads(self.graft("generate", model, *flags, "--prompt", "ask: a", "--max-tokens", 6, "--json"))["text"]
                 for model, flags in (("m.graft", both), ("merged.graft", ()))]
        self.assertEqual(texts[0], texts[1])

    def test_weights(self):
        base, one = self.logits("m.graft"), self.logits("m.graft", "--adapter", "a.graft")
        self.agree(self.logits("m.graft", "--adapter", "a.graft=1"), one)
        self.agree(self.logits("m.graft", "--adapter", "a.graft=0"), base)
        self.agree(self.logits("m.graft", "--adapter", "a.graft=2", "--adapter", "a.graft=-1"), one)
        # A file whose name ends so is that file.
        shutil.copy(self.path("b.graft"), self.path("a.graft=0"))
        self.agree(self.logits("m.graft", "--adapter", "a.graft=0"), self.logits("m.graft", "--adapter", "b.graft"))

    def test_what_does_not_go_together(self):
        flags = ("--data", "jsonl:data.jsonl", "--seq", 24, "--batch", 2, "--steps", 1, "--quiet")
        self.graft("train", "m.graft", *flags, "--lora", "r=2,dora=yes", "-o", "dora.graft")
        self.fails("merge", "m.graft", "--adapter", "a.graft", "--adapter", "dora.graft", "-o", "x.graft", says=["DoRA"])
        self.fails("merge", "m.graft", "--adapter", "a.graft", "--adapter", "none.graft=2", "-o", "x.graft", says=["none.graft"])
        self.fails("merge", "m.graft", "--adapter", "a.graft=1e9", "-o", "x.graft", says=["1e+09"])
        self.refused("merge", "m.graft", "--adapter", "a.graft", "--adapter-only", "--quantize", "q8_0", "-o", "x.graft",
                     names="--quantize")
        self.graft("merge", "m.graft", "--adapter", "a.graft", "-o", "other.graft")
        self.graft("train", "other.graft", *flags, "--lora", "r=2", "-o", "c.graft")
        self.fails("merge", "m.graft", "--adapter", "a.graft", "--adapter", "c.graft", "-o", "x.graft", says=["made for"])
        self.graft("merge", "m.graft", "--adapter", "a.graft", "--adapter", "c.graft", "--any-base", "-o", "x.graft")

    def test_an_embedding_that_is_the_head_has_an_adapter_for_each_of_the_two(self):
        self.write_lines({"text": "abc def ghi"})
        flags = ("--data", "jsonl:data.jsonl", "--seq", 8, "--batch", 1, "--steps", 2, "--lr", "0.1", "--quiet")
        tables = load_safetensors(self.path("model/model.safetensors"))
        embedding = tables["model.embed_tokens.weight"]
        tables["lm_head.weight"] = embedding[0], list(embedding[1])
        for name, weight, rank in (("one", 0.5, 2), ("two", -1.5, 3)):
            self.graft("train", "m.graft", *flags, "--lora", f"r={rank},targets=embed_tokens|lm_head", "--seed", rank, "-o", f"{name}.graft")
            self.fails("merge", "m.graft", "--adapter", f"{name}.graft", "-o", "x.graft", says=("also read by", "would change both"))
            self.fails("export", f"{name}.graft", "-o", "x.gguf", says=("is embedding and head", "PEFT"))
            self.graft("export", f"{name}.graft", "-o", f"{name}-peft")
            parts = load_safetensors(self.path(f"{name}-peft/adapter_model.safetensors"))
            self.assertEqual(len(parts), 4)
            for layer, kind, end, turned in (("model.embed_tokens", "lora_embedding_", "", True), ("lm_head", "lora_", ".weight", False)):
                (_, columns), a = parts[f"base_model.model.{layer}.{kind}A{end}"]
                (rows, _), b = parts[f"base_model.model.{layer}.{kind}B{end}"]
                into = tables[layer + ".weight"][1]
                for i in range(rows):
                    for k in range(columns):
                        change = sum(2 * weight * b[i * rank + r] * a[r * columns + k] for r in range(rank))
                        into[k * rows + i if turned else i * columns + k] += change
        with open(self.path("model/config.json")) as file:
            config = json.load(file)
        shutil.copytree(self.path("model"), self.path("apart"))
        with open(self.path("apart/config.json"), "w") as file:
            json.dump({**config, "tie_word_embeddings": False}, file)
        files.save_safetensors(self.path("apart/model.safetensors"),
                               {name: ("F32", shape, files.pack(numbers)) for name, (shape, numbers) in tables.items()})
        self.graft("convert", "apart", "-o", "apart.graft")
        expected = self.logits("apart.graft")
        self.assertGreater(cli.difference(expected, self.logits("m.graft")), 1e-2)
        self.agree(self.logits("m.graft", "--adapter", "one.graft=0.5", "--adapter", "two-peft=-1.5"), expected)
        self.graft("merge", "m.graft", "--adapter", "one-peft=0.5", "--adapter", "two.graft=-1.5", "--adapter-only", "-o", "both.graft")
        self.agree(self.logits("m.graft", "--adapter", "both.graft"), expected)
        self.fails("export", "both.graft", "-o", "x.gguf", says=("is embedding and head",))
        for option in ("dora=yes", "init=pissa"):
            self.fails("train", "m.graft", *flags, "--lora", f"r=2,targets=embed_tokens,{option}", "-o", "x.graft",
                       says=(option, "is an embedding"))
        self.fails("train", "m.graft", *flags, "--lora", "r=2,targets=wpe", "-o", "x.graft", says=("wpe", "or an embedding"))
        self.graft("train", "m.graft", *flags, "--lora", "r=2,targets=*,dora=yes", "-o", "all.graft")  # of no embedding
        # Where the two are apart, they are merged.
        self.graft("train", "apart.graft", *flags, "--lora", "r=2,targets=embed_tokens|lm_head", "-o", "three.graft")
        self.graft("merge", "apart.graft", "--adapter", "three.graft", "-o", "merged.graft")
        self.agree(self.logits("merged.graft"), self.logits("apart.graft", "--adapter", "three.graft"))
        self.graft("export", "three.graft", "-o", "three.gguf")
        self.agree(self.logits("merged.graft"), self.logits("apart.graft", "--adapter", "three.gguf"))


if __name__ == "__main__":
    cli.main()

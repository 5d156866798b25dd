"""Language models from outside: converting, generating, what goes wrong. The model is a seed of the fuzzers, of 6 tokens.

Usage: language_test.py GRAFT [-v] [TEST ...]
"""

import json
import os
import shutil
import subprocess
import unittest

import cli

SHAPES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../bench/shapes")
SEEDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fuzz/corpus")


class LanguageTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        shutil.copy(f"{SEEDS}/gguf/llama", self.path("tiny.gguf"))
        self.graft("convert", "tiny.gguf", "-o", "tiny.graft")

    def generated(self, *flags):
        return json.loads(self.graft("generate", "tiny.graft", "--json", *flags))

    def test_convert_says_what_a_file_is(self):
        info = json.loads(self.graft("info", "tiny.graft", "--json"))
        self.assertEqual(info["metadata"]["source.format"], "gguf, llama")
        self.assertEqual(info["metadata"]["text.chat_format"], "chatml")
        self.assertEqual(info["tokenizer"], "scored_bpe, 6 tokens")
        self.assertEqual([port["shape"] for port in info["inputs"]], ["[batch, seq]"])
        with open(self.path("renamed.bin"), "wb") as out, open(self.path("tiny.gguf"), "rb") as file:
            out.write(file.read())
        self.graft("convert", "renamed.bin", "-o", "renamed.graft")  # by its first bytes, not its name

    def test_the_same_seed_gives_the_same_tokens(self):
        flags = ["--tokens", "1,3", "--max-tokens", "20", "--temperature", "2"]
        first = self.generated(*flags, "--seed", "5")
        self.assertEqual(first["tokens"], self.generated(*flags, "--seed", "5")["tokens"])
        others = [self.generated(*flags, "--seed", str(seed))["tokens"] for seed in range(6, 10)]
        self.assertTrue(any(tokens != first["tokens"] for tokens in others))
        self.assertLessEqual(len(first["tokens"]), 20)
        self.assertEqual(first["prompt_tokens"], [1, 3])
        self.assertEqual(first["context"], 64)

    def test_what_is_printed_is_the_text(self):
        flags = ["--prompt", "ab", "--max-tokens", "8"]
        whole = self.generated(*flags)
        self.assertEqual(whole["prompt_tokens"][0], 1, "the tokenizer begins texts so")
        printed = subprocess.run([cli.GRAFT, "generate", self.path("tiny.graft"), *flags], capture_output=True,
                                 timeout=cli.TIMEOUT)
        self.assertEqual(printed.stdout, whole["text"].encode() + b"\n")
        self.assertIn(b"stopped by " + whole["stopped_by"].encode(), printed.stderr)
        self.assertEqual(self.graft("generate", "tiny.graft", *flags, "--echo"), "ab" + whole["text"] + "\n")

    def test_failures_are_told_in_a_sentence(self):
        generate = lambda *flags, says: self.fails("generate", "tiny.graft", *flags, says=says)
        generate("--tokens", "1,6", says=["token 6", "knows 6 tokens"])
        generate("--tokens", "1,x", says=["\"x\""])
        generate("--prompt", "a", "--temperature", "-1", says=["temperature is -1"])
        generate("--prompt", "a", "--context", "65", says=["65", "made for 64"])
        generate("--tokens", ",".join(["3"] * 64), says=["64 tokens", "no room"])
        generate("--prompt", "a", "--chat", "smoke", says=["\"smoke\"", "chatml"])
        self.fails("generate", "mlp.graft", "--prompt", "a", says=["image", "i32[batch, seq]"])
        self.fails("generate", "tiny.gguf", "--prompt", "a", says=["graft convert"])
        self.fails("convert", ".", "-o", "o.graft", says=["config.json"])
        os.makedirs(self.path("folder"))
        shutil.copy(f"{SEEDS}/hf_config/llama", self.path("folder/config.json"))
        self.fails("convert", "folder", "-o", "o.graft", says=["model.safetensors"])
        shutil.copy(f"{SEEDS}/safetensors/three", self.path("folder/model.safetensors"))
        self.fails("convert", "folder", "-o", "o.graft", says=["model.embed_tokens.weight", "missing"])
        self.assertFalse(os.path.exists(self.path("o.graft")))
        for usage in (["generate", "tiny.graft"], ["generate", "tiny.graft", "--prompt", "a", "--tokens", "1"]):
            self.assertEqual(self.run_graft(*usage).returncode, 2)

    def test_packed_documents_do_not_see_each_other(self):
        texts = ["ab", "abb", "abbbb"]
        tokens = [len(self.generated("--prompt", text, "--max-tokens", "1")["prompt_tokens"]) + 1 for text in texts]
        with open(self.path("texts.jsonl"), "w") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
        # One window holds them all: its last position's label is the last token.
        seq = ["--seq", sum(tokens) - 1]
        losses = {}
        for pack in ("no", "yes", "mixed"):
            row = json.loads(self.graft("eval", "tiny.graft", "--data", f"jsonl:texts.jsonl?pack={pack}", *seq, "--json"))
            self.assertEqual(row["samples"], len(texts) if pack == "no" else 1)
            losses[pack] = row["loss"]
        self.assertAlmostEqual(losses["yes"], losses["no"], delta=1e-6)
        self.assertGreater(abs(losses["mixed"] - losses["no"]), 1e-4)
        # One trainer serves sets of both kinds.
        self.graft("train", "tiny.graft", "--data", "jsonl:texts.jsonl", "--eval", "jsonl:texts.jsonl?pack=yes", *seq,
                   "--batch", 2, "--steps", 1, "--quiet", "-o", "o.graft")
        self.fails("eval", "tiny.graft", "--data", "jsonl:texts.jsonl?pack=maybe", says=["pack=maybe", "mixed"])

    def test_samples_during_training_change_nothing(self):
        with open(self.path("texts.jsonl"), "w") as file:
            file.write(json.dumps({"text": "abbbb"}) + "\n")
        for name, flags in (("full", []), ("adapter", ["--lora", "r=2"])):
            files = []
            for sample in ([], ["--sample", "ab", "--sample", "a", "--sample-every", 2, "--sample-tokens", 5]):
                said = self.graft("train", "tiny.graft", "--data", "jsonl:texts.jsonl", "--seq", 6, "--batch", 1,
                                  "--lr", "0.1", "--steps", 5, "--quiet", "--metrics", "metrics.jsonl", *flags, *sample,
                                  "-o", f"{name}.graft")
                with open(self.path(f"{name}.graft"), "rb") as file:
                    files.append(file.read())
            self.assertEqual(files[0], files[1])
            rows = self.metrics("sample")
            self.assertEqual([(row["step"], row["prompt"]) for row in rows],
                             [(step, prompt) for step in (0, 2, 4) for prompt in ("ab", "a")])
            self.assertIn(f"sample after 2 steps: ab|{rows[2]['text']}\n", said)
            self.assertEqual(rows[0]["text"], self.generated("--prompt", "ab", "--max-tokens", "5")["text"])
        # What is said is what the weights of that moment say.
        self.graft("train", "tiny.graft", "--data", "jsonl:texts.jsonl", "--seq", 6, "--batch", 1, "--lr", "0.1",
                   "--steps", 4, "--quiet", "--lora", "r=2", "-o", "four.graft")
        now = self.generated("--adapter", "four.graft", "--prompt", "ab", "--max-tokens", "5")["text"]
        self.assertEqual(rows[4]["text"], now)
        self.assertTrue(any(row["text"] != rows[i % 2]["text"] for i, row in enumerate(rows)), rows)
        self.fails("train", "mlp.graft", "--data", "digits:?count=8", "--batch", 8, "--sample", "a", says=["\"image\""])

    def test_blocks(self):
        shutil.copy(f"{SEEDS}/gguf/blocks", self.path("blocks.gguf"))
        sizes = {}
        for name, flags in (("kept", []), ("expanded", ["--expand"])):
            report = self.graft("convert", "blocks.gguf", "-o", f"{name}.graft", *flags)
            self.assertEqual("frozen" in report, name == "kept", report)
            info = json.loads(self.graft("info", f"{name}.graft", "--json"))
            sizes[name] = info["total"]["bytes"]
            out = json.loads(self.graft("generate", f"{name}.graft", "--tokens", "1,2,3", "--max-tokens", "6", "--json"))
            sizes[name + " tokens"] = out["tokens"]
        self.assertLess(sizes["kept"], sizes["expanded"] / 3)
        self.assertEqual(sizes["kept tokens"], sizes["expanded tokens"])
        self.fails("convert", "mlp.onnx", "-o", "o.graft", "--quantize", "q8_0", says=["mlp.onnx"])
        self.assertEqual(self.run_graft("convert", "tiny.gguf", "-o", "o.graft", "--quantize", "q3").returncode, 2)


class Shapes(cli.CliTest):
    """What adapters on models of these shapes take, from their config.json alone."""

    MB = 10**6

    def plan(self, name, *flags, seq=512):
        out = self.graft("plan", f"{SHAPES}/{name}.json", "--lora", "r=8,targets=q_proj|k_proj|v_proj|o_proj", "--seq",
                         seq, "--batch", 1, "--json", *flags)
        return json.loads(out)

    def test_what_is_not_there_can_be_planned(self):
        plan = self.plan("smollm2-135m")
        # 49152 x 576 and 30 layers of 3 x 576 x 1536 + 2 x 576 x 576 + 2 x 576 x 192 numbers, and the norms' 61 x 576.
        self.assertEqual(plan["memory"]["weights"], 4 * 134515008)
        self.assertEqual(plan["memory"]["parameters"], 4 * 30 * 8 * (576 + 576 + 2 * (576 + 192) + 576 + 576))
        blocks = self.plan("smollm2-135m", "--quantize", "q8_0")
        self.assertAlmostEqual(blocks["memory"]["weights"] / plan["memory"]["weights"], 34 / 128, delta=0.001)
        self.assertEqual(blocks["memory"]["activations"], plan["memory"]["activations"])
        self.fails("plan", "tests.json", says=["tests.json"])
        self.fails("plan", "mlp.graft", "--quantize", "q8_0", says=["config.json"])

    def test_adapters_take_150_mb_beyond_half_a_billion_frozen_weights(self):
        weights = self.plan("qwen2.5-0.5b")["memory"]["weights"]
        for flags, frozen in (([], weights), (["--quantize", "q8_0"], weights * 34 // 128 + self.MB)):
            tight = self.plan("qwen2.5-0.5b", *flags, "--budget", frozen + 150 * self.MB)
            self.assertLessEqual(tight["total"], tight["memory"]["weights"] + 151 * self.MB)
            self.assertEqual(tight["micro_batch"], 1)

    def test_logits_take_8_mb_whatever_the_vocabulary_and_attention_grows_with_the_length(self):
        for name in ("smollm2-135m", "qwen2.5-0.5b", "qwen3-1.7b"):
            attention = {}
            for seq in (512, 2048):
                nodes = self.plan(name, seq=seq)["plans"][0]["nodes"]
                head = [node["scratch_bytes"] for node in nodes if node["op"].startswith("linear_cross_entropy")]
                self.assertEqual(len(head), 2)
                self.assertLessEqual(max(head), 8 * self.MB)
                attention[seq] = sum(node["scratch_bytes"] for node in nodes if node["op"].startswith("attention"))
            self.assertLessEqual(attention[2048], 4 * attention[512])


if __name__ == "__main__":
    cli.main()

"""Language models from outside: converting, generating, what goes wrong. The model is a seed of the fuzzers, of 6 tokens.

Usage: language_test.py GRAFT [-v] [TEST ...]
"""

import json
import os
import shutil
import subprocess
import unittest

import cli


class LanguageTest(cli.LanguageTest):
    def test_convert_says_what_a_file_is(self):
        info = json.loads(self.graft("info", "tiny.graft", "--json"))
        self.assertEqual(info["metadata"]["source.format"], "gguf, llama")
        self.assertIn("<|im_start|>", info["metadata"]["text.chat_template"])
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
        self.refused("generate", "tiny.graft", "--prompt", "a", "--temperature", "-1", names="--temperature")
        generate("--prompt", "a", "--context", "65", says=["65", "made for 64"])
        generate("--tokens", ",".join(["3"] * 64), says=["64 tokens", "no room"])
        generate("--prompt", "a", "--chat", "smoke", says=["\"smoke\"", "chatml"])
        self.fails("generate", "mlp.graft", "--prompt", "a", says=["image", "i32[batch, seq]"])
        self.fails("generate", "tiny.gguf", "--prompt", "a", says=["graft convert"])
        self.fails("convert", ".", "-o", "o.graft", says=["config.json"])
        os.makedirs(self.path("folder"))
        shutil.copy(f"{cli.SEEDS}/hf_config/llama", self.path("folder/config.json"))
        self.fails("convert", "folder", "-o", "o.graft", says=["model.safetensors"])
        shutil.copy(f"{cli.SEEDS}/safetensors/three", self.path("folder/model.safetensors"))
        self.fails("convert", "folder", "-o", "o.graft", says=["model.embed_tokens.weight", "missing"])
        self.assertFalse(os.path.exists(self.path("o.graft")))
        for usage in (["generate", "tiny.graft"], ["generate", "tiny.graft", "--prompt", "a", "--tokens", "1"]):
            self.assertEqual(self.run_graft(*usage).returncode, 2)

    def test_blocks(self):
        shutil.copy(f"{cli.SEEDS}/gguf/blocks", self.path("blocks.gguf"))
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


if __name__ == "__main__":
    cli.main()

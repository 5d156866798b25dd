"""Language models in training, from outside: packed texts, samples on the way, speed and memory.

Usage: language_training_test.py GRAFT [-v] [TEST ...]
"""

import json
import os
import shutil

import cli

SHAPES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../bench/shapes")


class LanguageTraining(cli.LanguageTest):
    def test_packed_sequences_do_not_see_each_other(self):
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

    def test_bench_times_reading_writing_and_learning(self):
        bench = lambda model, *flags: json.loads(self.graft("bench", model, "--seq", 8, "--decode", 3, "--repeat", 1, "--lora",
                                                            "r=2", "--json", *flags))
        out = bench("tiny.graft", "--batch", 2)
        rows = {row["name"]: row for row in out["rows"]}
        self.assertEqual(list(rows), ["prefill", "decode", "lora step", "full step"])
        self.assertEqual([row["tokens"] for row in rows.values()], [8, 1, 16, 16])
        for row in rows.values():
            self.assertGreater(row["tokens_per_second"], 0)
        plan = json.loads(self.graft("plan", "tiny.graft", "--seq", 8, "--batch", 2, "--lora", "r=2", "--json"))
        self.assertEqual(rows["lora step"]["device_bytes"], plan["total"])
        shutil.copy(f"{cli.SEEDS}/gguf/blocks", self.path("blocks.gguf"))
        self.graft("convert", "blocks.gguf", "-o", "blocks.graft")
        self.assertEqual([row["name"] for row in bench("blocks.graft")["rows"]], ["prefill", "decode", "lora step"])
        self.assertIn("tokens/s", self.graft("bench", "tiny.graft", "--seq", 8, "--decode", 3, "--repeat", 1, "--lora", "r=2",
                                             "--processor-time"))
        self.refused("bench", "tiny.graft", "--seq", 0, names="--seq")


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
        # Products of blocks are cut otherwise than those of f32 on some devices: sums of parts are activations, too.
        self.assertAlmostEqual(blocks["memory"]["activations"] / plan["memory"]["activations"], 1, delta=0.01)
        self.fails("plan", "tests.json", says=["tests.json"])
        self.fails("plan", "mlp.graft", "--quantize", "q8_0", says=["config.json"])

    def test_adapters_take_150_mb_beyond_half_a_billion_frozen_weights(self):
        for flags in ([], ["--quantize", "q8_0"]):
            tight = self.plan("qwen2.5-0.5b", *flags, "--budget", "weights+150MB")
            self.assertLessEqual(tight["total"], tight["memory"]["weights"] + 150 * self.MB)
            self.assertEqual(tight["memory"]["weights"], self.plan("qwen2.5-0.5b", *flags)["memory"]["weights"])
            self.assertEqual(tight["micro_batch"], 1)
            self.assertEqual(tight["budget"]["bytes"], tight["memory"]["weights"] + 150 * self.MB)

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

"""How a text is made: drafts from the text itself, log-probabilities, biases. The model is a seed of the fuzzers.

Usage: generation_test.py GRAFT [-v] [TEST ...]
"""

import json
import math

import cli


class GenerationTest(cli.LanguageTest):
    PROMPT = ["--tokens", "1,3,4,3,4,3"]

    def test_drafts_change_no_token(self):
        for extra in ([], ["--temperature", "1.5", "--seed", "7"], ["--repetition-penalty", "1.3"]):
            flags = [*self.PROMPT, "--max-tokens", "40", *extra]
            plain = self.generated(*flags)
            ahead = self.generated(*flags, "--prompt-lookup", "3")
            self.assertEqual(ahead["tokens"], plain["tokens"])
            self.assertEqual(ahead["stopped_by"], plain["stopped_by"])
            self.assertLessEqual(ahead["right_drafts"], ahead["drafted_tokens"])
            self.assertNotIn("drafted_tokens", plain)
        self.refused("generate", "tiny.graft", *self.PROMPT, "--prompt-lookup", "65", names="--prompt-lookup")

    def test_caches_in_16_bits_change_scores_a_little(self):
        scores = lambda *flags: [other["logprob"] for other in sorted(
            self.generated(*self.PROMPT, "--max-tokens", "1", "--logprobs", "6", *flags)["logprobs"][0]["top"],
            key=lambda other: other["token"])]
        plain = scores()
        for kind, near in (("f16", 1e-2), ("bf16", 1e-1)):
            rounded = scores("--kv", kind)
            self.assertNotEqual(rounded, plain)
            self.assertLess(max(abs(a - b) for a, b in zip(rounded, plain)), near)
            ahead = self.generated(*self.PROMPT, "--max-tokens", "20", "--kv", kind, "--prompt-lookup", "3")
            self.assertEqual(ahead["tokens"], self.generated(*self.PROMPT, "--max-tokens", "20", "--kv", kind)["tokens"])
        self.assertEqual(scores("--kv", "f32"), plain)
        self.refused("generate", "tiny.graft", *self.PROMPT, "--kv", "q4_0", names="--kv")
        self.fails("generate", "tiny.graft", *self.PROMPT, "--kv", "q8_0", says=["in blocks of 32"])

    def test_log_probabilities(self):
        out = self.generated(*self.PROMPT, "--max-tokens", "3", "--logprobs", "6")
        self.assertEqual(len(out["logprobs"]), len(out["tokens"]))
        self.assertGreater(out["first_token_seconds"], 0)
        for token, said in zip(out["tokens"], out["logprobs"]):
            self.assertEqual(said["token"], token)
            self.assertEqual(said["top"][0]["token"], token, "the most probable is what is taken")
            self.assertAlmostEqual(sum(math.exp(other["logprob"]) for other in said["top"]), 1, places=5)
            values = [other["logprob"] for other in said["top"]]
            self.assertEqual(values, sorted(values, reverse=True))
            self.assertIn("text", said)
        self.assertNotIn("top", self.generated(*self.PROMPT, "--max-tokens", "1", "--logprobs", "0")["logprobs"][0])
        self.refused("generate", "tiny.graft", *self.PROMPT, "--logprobs", "1", names="--logprobs")

    def test_biases(self):
        first = self.generated(*self.PROMPT, "--max-tokens", "1", "--logprobs", "2")
        best, second = (other["token"] for other in first["logprobs"][0]["top"])
        flags = [*self.PROMPT, "--max-tokens", "1"]
        self.assertEqual(self.generated(*flags, "--logit-bias", f"{best}=-inf")["tokens"], [second])
        self.assertEqual(self.generated(*flags, "--logit-bias", f"{second}=50,{best}=-2.5")["tokens"], [second])
        for bad in ("x=1", "3", "3=", "3=x", "3=nan", "-1=2", "6=1"):
            self.fails("generate", "tiny.graft", *flags, f"--logit-bias={bad}", says=["bias"])


if __name__ == "__main__":
    cli.main()

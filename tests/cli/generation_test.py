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

    def test_several_texts_are_what_each_is_alone(self):
        lines = ["ab", "a", "abb", "a", "ab"]
        with open(self.path("prompts.txt"), "w") as file:
            file.write("\n\n".join(lines) + "\n")
        with open(self.path("prompts.jsonl"), "w") as file:
            for i, line in enumerate(lines):
                print(json.dumps({"prompt": line, "id": i} if i % 2 else line), file=file)
        flags = ["--max-tokens", "9"]
        alone = [self.generated("--prompt", line, *flags) for line in lines]
        for name in ("prompts.txt", "prompts.jsonl"):
            out = self.generated("--prompts", name, "--parallel", "3", *flags)
            self.assertEqual([text["tokens"] for text in out["texts"]], [one["tokens"] for one in alone])
            self.assertEqual([text["prompt_tokens"] for text in out["texts"]], [one["prompt_tokens"] for one in alone])
            self.assertEqual(out["sequences"], 3)
            self.assertTrue(out["bits_of_one"])
            self.assertGreater(out["texts"][-1]["cached_prompt_tokens"], 0, "they begin alike")
        with open(self.path("ids.jsonl"), "w") as file:
            print("[1, 3, 4]\n" + json.dumps({"prompt": [1, 4]}), file=file)
        out = self.generated("--prompts", "ids.jsonl", *flags)
        self.assertEqual(out["texts"][1]["tokens"], self.generated("--tokens", "1,4", *flags)["tokens"])
        plain = self.graft("generate", "tiny.graft", "--prompt", lines[0], "--prompt", lines[2], *flags, "--echo")
        self.assertEqual(plain, "".join(lines[i] + alone[i]["text"] + "\n" for i in (0, 2)))

    def test_several_texts_and_errors(self):
        with open(self.path("bad.jsonl"), "w") as file:
            file.write('"ab"\n{"text": "b"}\n')
        self.fails("generate", "tiny.graft", "--prompts", "bad.jsonl", says=["Line 2", "prompt"])
        open(self.path("empty.txt"), "w").close()
        self.fails("generate", "tiny.graft", "--prompts", "empty.txt", says=["holds none"])
        self.fails("generate", "tiny.graft", "--prompt", "a", "--prompt", "b", "--prompt-lookup", "3",
                   says=["one sequence at a time"])
        self.fails("generate", "tiny.graft", "--prompt", "a", "--parallel", "200", "--budget", "200KiB",
                   says=["200 sequences at once are too many", "would fit"])
        self.refused("generate", "tiny.graft", "--prompt", "a", "--parallel", "0", names="--parallel")
        self.fails("generate", "tiny.graft", "--prompt", "ab", "--prompt", "a", "--logit-bias", "0=-inf,1=-inf,2=-inf,3=-inf,4=-inf,5=-inf",
                   says=["Prompt 1 has no text", "forbidden"])


if __name__ == "__main__":
    cli.main()

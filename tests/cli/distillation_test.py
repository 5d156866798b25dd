"""Training with a teacher: what goes together, packed texts, checkpoints. What the loss is: tests/torch/distill_parity.py.

Usage: distillation_test.py GRAFT [-v] [TEST ...]
"""

import json
import math
import shutil

import cli
import files
from letter_text import IDS, LetterTest, ids


class Distillation(LetterTest):
    FLAGS = ("--data", "jsonl:data.jsonl", "--seq", 24, "--batch", 2, "--lr", "0.02", "--quiet")

    def setUp(self):
        super().setUp()
        self.write_lines(*({"prompt": p, "completion": c} for p, c in self.PAIRS * 4))
        self.write_teacher("larger", lambda numbers: [-2 * n for n in numbers])
        self.graft("convert", "larger", "-o", "t.graft")

    def write_teacher(self, folder, change, tokens=IDS):
        """The model with another embedding, which is its head as well."""
        shutil.copytree(self.path("model"), self.path(folder))
        path = self.path(f"{folder}/model.safetensors")
        tensors = {name: (kind, shape, raw) for name, (kind, shape, raw) in files.load_safetensors(path).items()}
        name = "model.embed_tokens.weight"
        kind, (_, columns), raw = tensors[name]
        numbers = change(files.floats(raw))
        tensors[name] = kind, (len(numbers) // columns, columns), files.pack(numbers)
        files.save_safetensors(path, tensors)
        for part, edit in (("config", lambda c: c.update(vocab_size=len(numbers) // columns)),
                           ("tokenizer", lambda t: t["model"].update(vocab=tokens))):
            with open(self.path(f"{folder}/{part}.json")) as file:
                content = json.load(file)
            edit(content)
            with open(self.path(f"{folder}/{part}.json"), "w") as file:
                json.dump(content, file)

    def distributions(self, row, model):
        cli.save_npy(self.path("row.npy"), row, (1, len(row)), "i")
        self.graft("run", model, "--input", "tokens=row.npy", "--out", "out")
        logits = cli.load_npy(self.path("out/logits.npy"))
        for i in range(len(row)):
            line = logits[i * len(IDS):(i + 1) * len(IDS)]
            total = math.log(sum(math.exp(x) for x in line))
            yield [x - total for x in line]

    def divergence(self, model):
        """Of the model from its teacher, for each token of what is learned."""
        prompt, answer = self.PAIRS[1]
        row = ids(prompt) + ids(answer)
        both = list(zip(self.distributions(row, "t.graft"), self.distributions(row, model), strict=True))[len(ids(prompt)) - 1:]
        return sum(sum(math.exp(a) * (a - b) for a, b in zip(*pair)) for pair in both) / len(both)

    def test_the_model_comes_nearer_to_its_teacher(self):
        before = self.divergence("m.graft")
        self.graft("train", "m.graft", "--teacher", "t.graft", "--distill-weight", 1, "--distill-temperature", 1, *self.FLAGS,
                   "--steps", 30, "-o", "near.graft")
        self.assertLess(self.divergence("near.graft"), before / 2)
        self.assertNotIn("teacher", self.graft("info", "near.graft"))
        # Of texts that share a sample, the teacher sees no more than the model; so packing changes no token's loss.
        losses = []
        for pack in ("yes", "no"):
            self.graft("train", "m.graft", "--teacher", "t.graft", "--data", f"jsonl:data.jsonl?count=3&pack={pack}", "--seq", 48,
                       "--batch", 4, "--steps", 1, "--quiet", "--metrics", f"{pack}.jsonl", "-o", "x.graft")
            with open(self.path(f"{pack}.jsonl")) as file:
                losses += [row["loss"] for row in map(json.loads, file) if "loss" in row]
        self.assertEqual(len(losses), 2)
        self.assertAlmostEqual(losses[0], losses[1], delta=1e-5 * losses[0])

    def test_a_run_goes_on_with_its_own_teacher_alone(self):
        flags = ("m.graft", "--teacher", "t.graft", *self.FLAGS)
        self.graft("train", *flags, "--steps", 4, "-o", "whole.graft")
        self.graft("train", *flags, "--steps", 2, "--checkpoint", "run", "-o", "half.graft")
        again = (*flags, "--steps", 4, "--checkpoint", "run", "--resume")
        self.write_teacher("changed", lambda numbers: [n + 0.1 for n in numbers])
        self.graft("convert", "changed", "-o", "other.graft")
        self.fails("train", *(part if part != "t.graft" else "other.graft" for part in again), "-o", "x.graft", says=["teacher"])
        self.graft("train", *again, "-o", "resumed.graft")
        with open(self.path("whole.graft"), "rb") as one, open(self.path("resumed.graft"), "rb") as other:
            self.assertEqual(one.read(), other.read())

    def test_what_it_takes_is_planned(self):
        planned = lambda *flags: json.loads(self.graft("plan", "m.graft", "--bind", "batch=2,seq=24", "--json", *flags))["memory"]
        alone, together = planned(), planned("--teacher", "t.graft")
        of = lambda memory: memory["weights"] if isinstance(memory["weights"], int) else memory["weights"]["bytes"]
        with open(self.path("larger/model.safetensors"), "rb") as file:
            self.assertGreaterEqual(of(together) - of(alone), 0.9 * len(file.read()))
        self.graft("plan", "m.graft", "--teacher", "larger/config.json", "--bind", "batch=2,seq=24")
        self.fails("train", "m.graft", "--teacher", "t.graft", *self.FLAGS, "--steps", 1, "--budget", "20KiB", "-o", "x.graft",
                   says=["budget"])

    def test_what_does_not_go_together(self):
        self.write_teacher("wide", lambda numbers: numbers + numbers[:16], {**IDS, "%": len(IDS)})
        renamed = {("~" if name == "a" else name): i for name, i in IDS.items()}
        self.write_teacher("strange", lambda numbers: numbers, renamed)
        train = lambda teacher, *flags: ("train", "m.graft", "--teacher", teacher, *self.FLAGS, "--steps", 1, "-o", "x.graft", *flags)
        for name, says in (("wide", (f"of {len(IDS)} tokens", f"of {len(IDS) + 1}", "one vocabulary")),
                           ("strange", ('is "a" for the model and "~"', "one vocabulary"))):
            self.graft("convert", name, "-o", f"{name}.graft")
            self.fails(*train(f"{name}.graft"), says=says)
        self.fails(*train("none.graft"), says=["none.graft"])
        self.fails(*train("t.graft", "--loss", "mse"), says=["loss ce alone"])
        for flag in (("--distill-weight", "0.3"), ("--distill-temperature", "2")):
            self.refused("train", "m.graft", *self.FLAGS, "--steps", 1, "-o", "x.graft", *flag, names=flag[0])
        self.refused(*train("t.graft", "--distill-weight", "1.5"), names="--distill-weight")
        self.refused("plan", "m.graft", "--mode", "infer", "--teacher", "t.graft", names="--teacher")


if __name__ == "__main__":
    cli.main()

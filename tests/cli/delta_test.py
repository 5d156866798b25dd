"""graft delta and graft simulate: what training changed, averaged over clients and put on a model."""

import json
import os

import cli
from cli import CliTest, LanguageTest, difference


class Delta(CliTest):
    TRAIN = ("--batch", "32", "--lr", "0.05", "--optimizer", "sgd", "--quiet")

    def trained(self, name, seed=1, count=64):
        self.graft("train", "mlp.graft", "--data", f"digits:?seed={seed}&count={count}", "--steps", "4", *self.TRAIN, "-o", name)

    def info(self, name):
        return json.loads(self.graft("delta", "info", name, "--json"))

    def test_a_round_of_two_clients(self):
        self.trained("one.graft")
        self.trained("two.graft", seed=2, count=32)
        for name, samples in (("one", 64), ("two", 32)):
            self.graft("delta", "make", "mlp.graft", f"{name}.graft", "-o", name, "--samples", samples, "--local-steps", 4)
        self.graft("delta", "average", "one", "two", "-o", "mean")
        info = self.info("mean")
        self.assertEqual((info["clients"], info["samples"], info["local_steps"]), (2, 96, 8))
        self.assertEqual((info["kind"], info["coding"], info["base_file"]), ("weights", "f32", "mlp.graft"))
        self.graft("delta", "apply", "mlp.graft", "mean", "-o", "next.graft")
        # An MLP is no linear function of its weights, but the mean of the weights is what was asked for.
        self.images(3)
        means = [2 / 3 * a + 1 / 3 * b for a, b in zip(self.weights("one.graft"), self.weights("two.graft"))]
        self.assertLess(difference(self.weights("next.graft"), means), 1e-6)
        self.graft("delta", "apply", "mlp.graft", "mean", "-o", "half.graft", "--server-rate", 0.5)
        middle = [(a + b) / 2 for a, b in zip(self.weights("mlp.graft"), means)]
        self.assertLess(difference(self.weights("half.graft"), middle), 1e-6)
        self.assertIn("clients      2", self.graft("delta", "info", "mean"))
        self.fails("delta", "apply", "one.graft", "mean", "-o", "x.graft", says=("mlp.graft", "does not belong on"))
        self.fails("delta", "apply", "mlp.graft", "mlp.graft", "-o", "x.graft", says=('"mlp.graft"', "GRFW"))
        self.fails("delta", "make", "mlp.graft", "one.graft", "-o", "one.graft", says=("is one of the inputs",))
        self.fails("delta", "average", "one", "nowhere", "-o", "x", says=("nowhere",))

    def weights(self, model):
        self.graft("export", model, "-o", model + ".safetensors")
        import files
        import array
        out = []
        for _, (dtype, _, raw) in sorted(files.load_safetensors(self.path(model + ".safetensors")).items()):
            self.assertEqual(dtype, "F32")
            out += array.array("f", raw).tolist()
        return out

    def test_codecs_sizes_and_what_they_lose(self):
        self.trained("new.graft")
        sizes = {}
        for codec in ("f32", "bf16", "int8", "fixed"):
            self.graft("delta", "make", "mlp.graft", "new.graft", "-o", codec, "--codec", codec, "--samples", 64)
            sizes[codec] = os.path.getsize(self.path(codec))
            self.graft("delta", "apply", "mlp.graft", codec, "-o", f"{codec}.graft")
        self.assertLess(sizes["int8"], sizes["bf16"])
        self.assertLess(sizes["bf16"], sizes["f32"])
        new = self.weights("new.graft")
        step = max(abs(a - b) for a, b in zip(new, self.weights("mlp.graft")))
        for codec, bound in (("f32", 1e-7), ("bf16", step / 256), ("int8", step / 250), ("fixed", 1 / 256 / 64)):
            worst = max(abs(a - b) for a, b in zip(new, self.weights(f"{codec}.graft")))
            self.assertLess(worst, bound, codec)
        self.refused("delta", "make", "mlp.graft", "new.graft", "-o", "x", "--codec", "int8", "--room", 3, names="--room")
        self.fails("delta", "make", "mlp.graft", "new.graft", "-o", "x", "--codec", "int4", says=("int4",))
        self.fails("delta", "make", "mlp.graft", "new.graft", "-o", "x", "--noise", 1, says=("clip",))
        self.graft("delta", "make", "mlp.graft", "new.graft", "-o", "noisy", "--clip-norm", 0.01, "--noise", 0.5)
        self.assertEqual(self.info("noisy")["noise"], 0.005)

    def test_what_coding_lost_comes_with_the_next_round(self):
        self.trained("new.graft")
        self.graft("delta", "make", "mlp.graft", "new.graft", "-o", "one", "--codec", "int8", "--residual", "lost")
        self.assertGreater(self.info("lost")["numbers"], 0)
        self.graft("delta", "make", "mlp.graft", "new.graft", "-o", "two", "--codec", "int8", "--residual", "lost")
        with open(self.path("one"), "rb") as one, open(self.path("two"), "rb") as two:
            self.assertNotEqual(one.read(), two.read())

    def test_a_server_keeps_moments(self):
        self.trained("new.graft")
        self.graft("delta", "make", "mlp.graft", "new.graft", "-o", "d")
        adam = ("--server", "fedadam", "--server-rate", 0.01, "--server-beta1", 0.9)
        self.fails("delta", "apply", "mlp.graft", "d", "-o", "x.graft", *adam, says=("--server-state",))
        self.graft("delta", "apply", "mlp.graft", "d", "-o", "x.graft", *adam, "--server-state", "moments")
        self.graft("delta", "apply", "mlp.graft", "d", "-o", "y.graft", *adam, "--server-state", "moments")
        self.assertNotEqual(self.weights("x.graft"), self.weights("y.graft"), "the moments moved")
        self.fails("delta", "apply", "mlp.graft", "d", "-o", "x.graft", "--server", "fedyogi", "--server-state", "moments",
                   says=("fedadam",))
        self.refused("delta", "apply", "mlp.graft", "d", "-o", "x.graft", "--server-tau", 1, names="--server-tau")

    def test_the_accountant(self):
        cost = json.loads(self.graft("delta", "privacy", "--noise", 1.1, "--share", 0.01, "--rounds", 1000, "--json"))
        self.assertAlmostEqual(cost["epsilon"], 1.725, places=2)
        self.assertIn("(epsilon, delta)", self.graft("delta", "privacy", "--noise", 1.1))

    FEDERATED = ("--data", "digits:?count=400", "--eval", "digits:?split=test&count=100", "--rounds", 2, "--batch", 16,
                 "--lr", 0.1, "--optimizer", "sgd")

    def test_clients_learn_together(self):
        flags = ("--clients", 8, "--split", "dirichlet=0.5", "--drop", 0.3, "--codec", "int8", *self.FEDERATED)
        told = self.graft("simulate", "mlp.graft", *flags, "--metrics", "metrics.jsonl", "--svg", "f.svg", "-o", "f.graft")
        rounds = self.metrics("round")
        self.assertEqual([row["round"] for row in rounds], [0, 1, 2])
        self.assertLess(rounds[2]["held_out_loss"], rounds[0]["held_out_loss"])
        self.assertIn("8 clients with", told)
        again = self.graft("simulate", "mlp.graft", *flags, "-o", "g.graft")
        self.assertEqual(told.replace("f.graft", "g.graft"), again, "the same seed gives the same run")
        with open(self.path("f.graft"), "rb") as f, open(self.path("g.graft"), "rb") as g:
            self.assertEqual(f.read(), g.read())

    def test_one_client_with_everything_is_central_training(self):
        """A round is an epoch then: FedAvg of one client adds what it changed."""
        self.graft("simulate", "mlp.graft", "--clients", 1, "--data", "digits:?count=64", "--rounds", 1, "--batch", 64,
                   "--lr", 0.1, "--optimizer", "sgd", "-o", "f.graft")
        self.graft("train", "mlp.graft", "--data", "digits:?count=64", "--batch", 64, "--lr", 0.1, "--optimizer", "sgd",
                   "--quiet", "-o", "c.graft")
        # One batch of all samples, in another order: sums round differently.
        self.assertLess(difference(self.weights("f.graft"), self.weights("c.graft")), 1e-5)

    def test_servers_splits_and_privacy(self):
        for flags in (("--server", "fedadam", "--server-rate", 0.01), ("--proximal", 0.1, "--split", "shards=2"),
                      ("--clip-delta", 0.5, "--noise", 0.1, "--per-round", 3), ("--codec", "fixed", "--local-epochs", 2)):
            told = self.graft("simulate", "mlp.graft", "--clients", 4, *self.FEDERATED, *flags)
            self.assertIn("round 2: ", told)
            self.assertEqual("epsilon" in told, "--noise" in flags)
        # With noise each client is drawn by itself, so that rounds differ in their number; one without any has noise.
        longer = [12 if before == "--rounds" else flag for before, flag in zip(("", *self.FEDERATED), self.FEDERATED)]
        self.graft("simulate", "mlp.graft", "--clients", 8, *longer, "--per-round", 2,
                   "--clip-delta", 0.5, "--noise", 0.1, "--metrics", "metrics.jsonl")
        drawn = [row["clients"] for row in self.metrics("round")[1:]]
        self.assertGreater(len(set(drawn)), 2, drawn)
        self.assertLess(abs(sum(drawn) / len(drawn) - 2), 1.5, drawn)
        self.fails("simulate", "mlp.graft", "--noise", 1, *self.FEDERATED, says=("--clip-delta",))
        self.fails("simulate", "mlp.graft", "--split", "fair", *self.FEDERATED, says=('"fair"',))
        self.fails("simulate", "mlp.graft", "--clients", 300, "--split", "shards=2", *self.FEDERATED, says=("300 clients",))


class AdapterDelta(LanguageTest):
    def test_adapters_are_averaged_by_matrix_and_by_product(self):
        with open(self.path("texts.jsonl"), "w") as texts:
            texts.write('{"text": "abbbb"}\n' * 12)
        for seed in (1, 2):
            self.graft("train", "tiny.graft", "--data", "jsonl:texts.jsonl", "--seq", 4, "--steps", 3, "--batch", 4, "--seed", seed,
                       "--lora", "r=2", "--quiet", "-o", f"a{seed}.graft")
            self.graft("delta", "make", "tiny.graft", f"a{seed}.graft", "-o", f"d{seed}", "--samples", 12)
        self.assertEqual(json.loads(self.graft("delta", "info", "d1", "--json"))["rank"], 2)
        self.graft("delta", "average", "d1", "d2", "-o", "mean")
        told = self.graft("delta", "average", "d1", "d2", "-o", "products", "--products", "--rank", 4)
        self.assertIn("rank 4 hold 100%", told)
        products = json.loads(self.graft("delta", "average", "d1", "d2", "-o", "products", "--products", "--rank", 4, "--json"))
        self.assertGreater(products["norm"], 0)
        self.assertEqual((products["output"], products["clients"], products["samples"]), ("products", 2, 24))
        for name in ("mean", "products"):
            self.graft("delta", "apply", "tiny.graft", name, "-o", f"{name}.graft")
            self.graft("merge", "tiny.graft", "--adapter", f"{name}.graft", "-o", f"{name}.merged.graft")
        merged = json.loads(self.graft("merge", "tiny.graft", "--adapter", "mean.graft", "-o", "json.graft", "--json"))
        self.assertEqual(merged["output"], "json.graft")
        made = json.loads(self.graft("delta", "make", "tiny.graft", "a1.graft", "-o", "made", "--samples", 12, "--json"))
        self.assertEqual((made["output"], made["bytes"]), ("made", os.path.getsize(self.path("made"))))
        self.assertGreater(made["norm"], 0)
        self.fails("delta", "apply", "a1.graft", "mean", "-o", "x.graft", says=("does not belong on",))
        # From round to round: what changed of the adapters themselves.
        self.graft("delta", "make", "a1.graft", "a2.graft", "-o", "step")
        self.graft("delta", "apply", "a1.graft", "step", "-o", "next.graft")
        self.graft("merge", "tiny.graft", "--adapter", "next.graft", "-o", "m.graft")
        self.fails("delta", "average", "step", "-o", "x", "--products", says=("against their model",))


if __name__ == "__main__":
    cli.main()

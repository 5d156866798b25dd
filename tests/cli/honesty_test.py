"""Whole training steps, seen from outside: what trainers get wrong without any single kernel being wrong."""

import json

import cli
from cli import CliTest, difference, load_npy, norm, random_floats, save_npy


class WholeStep(CliTest):
    def train(self, *flags, output="trained.graft", data="npy:x.npy,y.npy"):
        return self.graft("train", "mlp.graft", "--data", data, "--no-shuffle", "--quiet", "--metrics", "metrics.jsonl",
                          "-o", output, *flags)

    def test_n_small_steps_on_the_same_batch_go_n_times_as_far_as_one(self):
        self.images(8)
        self.labels([0, 1, 2, 3, 4, 5, 6, 7])
        start = self.outputs("mlp.graft")
        moves = {}
        for steps in (1, 5):
            # Small enough that the loss is straight over five steps, and far above the rounding of the outputs.
            self.train("--optimizer", "sgd", "--lr", "1e-4", "--batch", "8", "--steps", steps)
            moves[steps] = [b - a for a, b in zip(start, self.outputs("trained.graft"))]
            self.assertEqual(len(self.metrics()), steps)
        self.assertGreater(norm(moves[1]) / norm(start), 1e-5)
        # Curvature over the five steps: lr times the gradient's change, a few per cent at most.
        self.assertLess(difference(moves[5], [5 * m for m in moves[1]]), 0.03)

    def test_every_trainable_tensor_gets_a_gradient(self):
        self.images(4)
        info = json.loads(self.graft("info", "mlp.graft", "--json"))
        names = [parameter["name"] for parameter in info["parameters"]]
        self.assertEqual(len(names), 4)
        save_npy(self.path("dy.npy"), random_floats(40, 3), (4, 10))
        self.graft("grad", "mlp.graft", "--input", "image=x.npy", "--of", "logits", "--cotangent", "dy.npy", "--wrt",
                   ",".join([*names, "image"]), "--out", "g")
        for name in [*names, "image"]:
            size = norm(load_npy(self.path(f"g/{name}.npy")))
            self.assertGreater(size, 1e-3, name)
            self.assertLess(size, 1e6, name)

    def test_every_trainable_tensor_moves(self):
        self.images(8)
        self.labels([1, 1, 2, 3, 5, 8, 0, 9])
        names = [p["name"] for p in json.loads(self.graft("info", "mlp.graft", "--json"))["parameters"]]
        start = self.outputs("mlp.graft")
        moves = {}
        for name in names:
            frozen = ",".join(other for other in names if other != name)
            self.train("--optimizer", "sgd", "--lr", "0.1", "--batch", "8", "--steps", "1", "--freeze", frozen)
            moves[name] = difference(self.outputs("trained.graft"), start)
            self.assertGreater(moves[name], 1e-5, name)

    def test_any_micro_batch_gives_the_step_of_the_whole_batch(self):
        self.images(8)
        self.labels([0, 1, 2, 3, 4, 5, 6, 7])
        flags = ("--optimizer", "sgd", "--lr", "0.5", "--epochs", "1")
        self.train("--batch", "8", *flags)
        whole, loss = self.outputs("trained.graft"), self.metrics()[0]["loss"]
        self.assertGreater(difference(whole, self.outputs("mlp.graft")), 0.01)
        # 3 times 3 is more than 8: the last micro-batch is short, and the samples weigh the same nevertheless.
        for batch, accumulate in ((4, 2), (2, 4), (1, 8), (3, 3), (5, 2)):
            self.train("--batch", batch, "--accumulate", accumulate, *flags)
            self.assertEqual(len(self.metrics()), 1)
            self.assertAlmostEqual(self.metrics()[0]["loss"], loss, delta=1e-5 * loss)
            # Other orders of summation, nothing else.
            self.assertLess(difference(self.outputs("trained.graft"), whole), 1e-5, f"{batch} x {accumulate}")

    def losses_of_each(self, values, labels):
        """The loss of each sample on its own, as eval reports it."""
        losses = []
        for i, label in enumerate(labels):
            save_npy(self.path("one.npy"), values[784 * i:784 * (i + 1)], (1, 1, 28, 28))
            self.labels([label], "one_label.npy")
            row = json.loads(self.graft("eval", "mlp.graft", "--data", "npy:one.npy,one_label.npy", "--json"))
            losses.append(row["loss"])
        return losses

    def test_every_epoch_uses_every_sample_from_sample_0_on(self):
        values, labels = self.images(5), [7, 0, 3, 3, 9]
        self.labels(labels)
        expected = self.losses_of_each(values, labels)
        flags = ("--optimizer", "sgd", "--lr", "0", "--batch", "1", "--epochs", "3")
        self.train(*flags)
        for row, loss in zip(self.metrics(), 3 * expected, strict=True):
            self.assertAlmostEqual(row["loss"], loss, delta=1e-5)
        # Shuffled: each epoch is another order of the same samples.
        self.graft("train", "mlp.graft", "--data", "npy:x.npy,y.npy", "--quiet", "--metrics", "metrics.jsonl", *flags,
                   "--seed", "4")
        losses = [row["loss"] for row in self.metrics()]
        self.assertEqual(len(losses), 15)
        epochs = [losses[i:i + 5] for i in (0, 5, 10)]
        for epoch in epochs:
            for actual, loss in zip(sorted(epoch), sorted(expected), strict=True):
                self.assertAlmostEqual(actual, loss, delta=1e-5)
        self.assertTrue(epochs[0] != epochs[1] or epochs[1] != epochs[2])

    def test_two_runs_are_the_same_to_the_bit(self):
        self.images(16)
        self.labels([i % 10 for i in range(16)])
        files = []
        for name in ("one.graft", "two.graft"):
            self.graft("train", "mlp.graft", "--data", "npy:x.npy,y.npy", "--quiet", "--batch", "4", "--epochs", "2",
                       "--seed", "3", "-o", name)
            with open(self.path(name), "rb") as file:
                files.append(file.read())
        self.assertEqual(files[0], files[1])


if __name__ == "__main__":
    cli.main()

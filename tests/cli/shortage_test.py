"""`graft train` on a device that runs short of memory, by a Vulkan library made for it (short_driver.cpp)."""

import glob
import os

import cli
from cli import CliTest

LIBRARY = os.environ.get("GRAFT_TEST_SHORT_DRIVER", "")


class Shortages(CliTest):
    """On LeNet; --batch is the size of a micro-batch, so that no plan has another, which would give other bits."""

    STEPS = 8

    def setUp(self):
        super().setUp()
        self.graft("convert", "--example", "lenet", "-o", "lenet.onnx")
        self.graft("convert", "lenet.onnx", "-o", "lenet.graft")
        self.images(64)
        self.labels([i % 10 for i in range(64)])

    def train(self, output, **environment):
        """Returns what was said on stderr."""
        done = self.run_graft("train", "lenet.graft", "--data", "npy:x.npy,y.npy", "--batch", 64, "--steps", self.STEPS,
                              "--quiet", "--metrics", "metrics.jsonl", "--vulkan-library", LIBRARY, "-o", output,
                              env={**os.environ, **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.metrics()), self.STEPS, "no step is lost")
        return done.stderr

    def same_bytes(self, one, other):
        with open(self.path(one), "rb") as a, open(self.path(other), "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_a_submission_that_is_refused_is_told_and_changes_no_bit(self):
        said = self.train("free.graft")
        self.assertNotIn("short of memory", said)
        self.assertNotIn("shortages", self.metrics()[-1])
        os.remove(self.path("metrics.jsonl"))
        said = self.train("short.graft", GRAFT_TEST_REFUSE_AFTER=self.path("metrics.jsonl"))  # in the second step
        self.assertEqual(said.count("The device was short of memory by step "), 1, said)
        self.assertIn("training goes on with ", said)
        self.assertIn("The device had not the ", said)
        rows = self.metrics()
        self.assertNotIn("shortages", rows[0])
        self.assertEqual(rows[-1]["shortages"], 1)
        self.same_bytes("free.graft", "short.graft")

    def test_a_submission_that_is_refused_while_kernels_are_tested_is_no_verdict_on_them(self):
        self.train("free.graft")
        os.remove(self.path("metrics.jsonl"))
        os.mkdir(self.path("cache"))
        said = self.train("short.graft", GRAFT_TEST_REFUSE_AFTER=self.path("lenet.graft"),  # the very first
                          XDG_CACHE_HOME=self.path("cache"))
        self.assertNotIn("is not used on this device", said)
        self.assertIn("The device had not the ", said)
        profiles = glob.glob(self.path("cache/graft/device-*.txt"))
        self.assertEqual(len(profiles), 1, os.listdir(self.path("cache/graft")))
        with open(profiles[0]) as profile:
            lines = profile.readlines()
        self.assertTrue(any(line.startswith("passed") for line in lines), lines)
        self.assertFalse([line for line in lines if line.startswith(("failed", "probing"))])
        self.same_bytes("free.graft", "short.graft")

    def test_a_budget_of_the_driver_that_shrinks_is_kept(self):
        self.train("free.graft", GRAFT_TEST_ALLOW="1:" + self.path("nowhere"))
        for allowed, enough in ((85, True), (10, False)):  # percent of what is held after the first step
            os.remove(self.path("metrics.jsonl"))
            said = self.train("short.graft", GRAFT_TEST_ALLOW=f"{allowed}:" + self.path("metrics.jsonl"))
            self.assertIn("The device was short of memory by step ", said)
            self.assertEqual(said.count("but no plan is smaller."), 0 if enough else 1, said)
            row = self.metrics()[-1]
            self.assertEqual(row["shortages"], said.count("The device was short of memory by step "))
            self.assertEqual("heap_overdrawn" in row, not enough, row)
            self.same_bytes("free.graft", "short.graft")


if __name__ == "__main__":
    cli.main()

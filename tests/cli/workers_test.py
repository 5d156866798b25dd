"""`graft train --workers`: the bits of one worker, whatever becomes of a run."""

import json
import signal
import subprocess
import time

import cli
from cli import CliTest


class Workers(CliTest):
    FLAGS = ("train", "lenet.graft", "--data", "npy:x.npy,y.npy", "--batch", 4, "--accumulate", 4, "--epochs", 2, "--seed",
             3, "--clip-norm", 1, "--quiet")

    def setUp(self):
        super().setUp()
        self.graft("convert", "--example", "lenet", "-o", "lenet.onnx")
        self.graft("convert", "lenet.onnx", "-o", "lenet.graft")
        self.images(90)  # the last batch of an epoch has ten samples
        self.labels([i % 10 for i in range(90)])

    def same_bytes(self, one, other):
        with open(self.path(one), "rb") as a, open(self.path(other), "rb") as b:
            self.assertEqual(a.read(), b.read())

    def test_any_number_writes_the_same_file(self):
        self.graft(*self.FLAGS, "--eval", "npy:x.npy,y.npy", "--metrics", "metrics.jsonl", "-o", "one.graft")
        alone = [row["loss"] for row in self.metrics()]
        for number in (2, 5):
            said = self.run_graft(*self.FLAGS, "--eval", "npy:x.npy,y.npy", "--metrics", "metrics.jsonl", "--workers",
                                  number, "-o", "several.graft")
            self.assertEqual(said.returncode, 0, said.stderr)
            self.assertIn(f"{number} workers take {'2, 2' if number == 2 else '1, 1, 1, 1, 0'} of the 4", said.stderr)
            self.same_bytes("one.graft", "several.graft")
            self.assertEqual([row["loss"] for row in self.metrics()], alone)

    def test_memory_and_traffic_are_known_beforehand(self):
        flags = ("plan", "lenet.graft", "--batch", 4, "--accumulate", 4, "--json")
        alone = json.loads(self.graft(*flags))
        self.assertNotIn("workers", alone)
        three = json.loads(self.graft(*flags, "--workers", 3))
        gradients = 4 * 431080  # of LeNet's parameters
        self.assertEqual(three["workers"], {"number": 3, "micro_batches": 4, "most_of_one": 2, "host_bytes": 2 * gradients,
                                            "bytes_sent": 2 * gradients})
        self.assertGreater(three["total"], alone["total"])
        self.refused("plan", "lenet.graft", "--mode", "infer", "--workers", 2, names="--workers")

    def until_steps(self, count, *flags):
        """A run that has done so many steps."""
        command = [cli.GRAFT, *map(str, self.FLAGS), "--metrics", "metrics.jsonl", "--checkpoint", "kept", "--checkpoint-every",
                   "2", *map(str, flags)]
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + cli.TIMEOUT
        while process.poll() is None and time.monotonic() < deadline:
            try:
                if len(self.metrics()) >= count:
                    break
            except (OSError, ValueError):
                pass  # not yet, or a line that is on its way
            time.sleep(0.01)
        return process

    def test_a_run_goes_on_with_another_number(self):
        self.graft(*self.FLAGS, "-o", "one.graft")
        process = self.until_steps(3, "--workers", 4)
        process.kill()
        process.communicate()
        process = self.until_steps(6, "--resume")  # one, which may stop in the middle of a step
        process.send_signal(signal.SIGTERM)
        process.communicate()
        process = self.until_steps(8, "--resume", "--workers", 2)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.graft(*self.FLAGS, "--checkpoint", "kept", "--resume", "--workers", 3, "-o", "resumed.graft")
        self.same_bytes("one.graft", "resumed.graft")

    def test_what_one_cannot_do_ends_all_with_a_sentence(self):
        self.fails(*self.FLAGS, "--workers", 2, "--devices", "0,no-such-device",
                   says=("Worker 1 stopped: No Vulkan device matches \"no-such-device\"",))
        self.fails(*self.FLAGS, "--workers", 2, "--fetch", "x", "--fetch-out", "y", says=("several workers",))
        self.fails(*self.FLAGS, "--workers", 2, "--recover-device", says=("one worker",))
        self.fails(*self.FLAGS, "--devices", "0,1", says=("--workers",))
        self.refused(*self.FLAGS, "--workers", 0, names="--workers")
        self.labels([i % 10 for i in range(89)] + [12])
        self.fails(*self.FLAGS, "--workers", 2, "-o", "bad.graft", says=("sample 89", "12"))


if __name__ == "__main__":
    cli.main()

"""A training run that is told to stop ends after the step in progress, with the model saved."""

import os
import signal
import subprocess
import time

import cli
from cli import CliTest


class Signals(CliTest):
    FLAGS = ("--data", "digits:?count=200", "--batch", "10", "--seed", "5", "--metrics", "metrics.jsonl", "--quiet")

    def start(self, *flags):
        """A run without end that has done some steps."""
        command = [cli.GRAFT, "train", "mlp.graft", *self.FLAGS, "--steps", "10000000", *flags]
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + cli.TIMEOUT
        while not os.path.exists(self.path("metrics.jsonl")) or len(self.metrics()) < 3:
            self.assertIsNone(process.poll(), "the run ended by itself")
            self.assertLess(time.monotonic(), deadline, "three steps take too long")
            time.sleep(0.05)
        return process

    def metrics(self, kind="step"):
        with open(self.path("metrics.jsonl")) as file:
            whole = file.read().rpartition("\n")[0]  # the last line may be on its way
        return whole.splitlines()

    def test_the_model_is_saved_after_the_step_in_progress(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            process = self.start("-o", "stopped.graft")
            process.send_signal(number)
            out, errors = process.communicate(timeout=cli.TIMEOUT)
            self.assertEqual(process.returncode, 128 + number, out + errors)
            steps = len(self.metrics())
            self.assertIn(f"Stopped after step {steps}.", out)
            self.assertIn("Wrote stopped.graft.", out)
            # The very model that a run of as many steps gives.
            self.graft("train", "mlp.graft", *self.FLAGS, "--steps", steps, "-o", "same.graft")
            with open(self.path("stopped.graft"), "rb") as a, open(self.path("same.graft"), "rb") as b:
                self.assertEqual(a.read(), b.read())
            os.remove(self.path("metrics.jsonl"))

    def test_a_killed_run_leaves_the_old_model(self):
        with open(self.path("mlp.graft"), "rb") as file:
            before = file.read()
        process = self.start("-o", "mlp.graft", "--in-place")
        process.kill()
        process.communicate(timeout=cli.TIMEOUT)
        with open(self.path("mlp.graft"), "rb") as file:
            self.assertEqual(file.read(), before)


if __name__ == "__main__":
    cli.main()

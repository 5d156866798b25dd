"""A training run that is killed at any instant goes on from its checkpoint to the same weights, bit for bit."""

import os
import random
import subprocess
import time

import cli
from cli import CliTest

KILLS = int(os.environ.get("GRAFT_TEST_KILLS", "20"))


class Resume(CliTest):
    # Not a multiple of the data: epochs end inside; accumulation and clipping have state of their own.
    FLAGS = ("--data", "digits:?count=330", "--batch", "10", "--accumulate", "2", "--clip-norm", "1", "--schedule",
             "cosine", "--steps", "120", "--seed", "5", "--quiet")
    CHECKPOINT = ("--checkpoint", "store", "--checkpoint-every", "7")

    def bytes_of(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def test_killed_runs_end_with_the_same_weights(self):
        self.graft("train", "mlp.graft", *self.FLAGS, "-o", "whole.graft")
        start = time.monotonic()
        self.graft("train", "mlp.graft", *self.FLAGS, "--checkpoint", "other", "--checkpoint-every", "7", "-o", "b.graft")
        length = time.monotonic() - start
        self.assertEqual(self.bytes_of("whole.graft"), self.bytes_of("b.graft"), "checkpoints change the training")

        chance = random.Random(7)
        kills = 0
        command = [cli.GRAFT, "train", "mlp.graft", *self.FLAGS, *self.CHECKPOINT, "--resume", "-o", "resumed.graft"]
        while kills < KILLS:
            process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True)
            time.sleep(chance.uniform(0.02, length / 3))
            ended = process.poll() is not None
            process.kill()
            _, errors = process.communicate(timeout=cli.TIMEOUT)
            if ended:
                self.assertEqual(process.returncode, 0, errors)
                break
            kills += 1
            if os.path.exists(self.path("store/ROOT")):
                self.graft("checkpoint", "verify", "store")
        done = self.run_graft("train", "mlp.graft", *self.FLAGS, *self.CHECKPOINT, "--resume", "-o", "resumed.graft")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(self.bytes_of("whole.graft"), self.bytes_of("resumed.graft"), f"after {kills} kills")
        print(f"{kills} kills")

    def test_a_resume_with_other_options_is_refused(self):
        self.graft("train", "mlp.graft", *self.FLAGS, *self.CHECKPOINT)
        self.fails("train", "mlp.graft", *self.FLAGS, *self.CHECKPOINT, says=("resume it, or take another folder",))
        self.fails("train", "mlp.graft", *self.FLAGS, *self.CHECKPOINT, "--resume", "--lr", "0.5",
                   says=("another optimizer",))
        self.fails("train", "mlp.graft", "--data", "digits:?count=340", *self.FLAGS[2:], *self.CHECKPOINT, "--resume",
                   says=("another data",))
        self.graft("checkpoint", "list", "store")
        self.graft("checkpoint", "prune", "store", "--keep", "1")
        self.assertIn("1 snapshots", self.graft("checkpoint", "verify", "store"))

    def test_any_kept_snapshot_becomes_a_model_again(self):
        self.graft("train", "mlp.graft", *self.FLAGS, *self.CHECKPOINT, "-o", "trained.graft")
        last = max(int(line.split()[0]) for line in self.graft("checkpoint", "list", "store").splitlines()[1:-1])
        self.graft("checkpoint", "restore", "store", last, "--model", "mlp.graft", "-o", "restored.graft")
        self.assertEqual(self.bytes_of("trained.graft"), self.bytes_of("restored.graft"))


if __name__ == "__main__":
    cli.main()

"""A training run that is killed at any instant goes on from its checkpoint to the same weights, bit for bit."""

import json
import math
import os
import random
import shutil
import signal
import subprocess
import time

import cli
from cli import CliTest

KILLS = int(os.environ.get("GRAFT_TEST_KILLS", "20"))


class Resume(CliTest):
    # Not a multiple of the data: epochs end inside; accumulation and clipping have state of their own.
    FLAGS = ("--data", "digits:?count=330", "--batch", "10", "--accumulate", "2", "--clip-norm", "1", "--schedule",
             "cosine", "--steps", "120", "--seed", "5", "--proximal", "0.1", "--quiet")
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
        kills = ends = 0
        command = [cli.GRAFT, "train", "mlp.graft", *self.FLAGS, *self.CHECKPOINT, "--resume", "-o", "resumed.graft"]
        while kills < KILLS or not ends:
            process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True)
            try:  # once there were enough kills, the run may end
                process.wait(chance.uniform(0.02, length / 3) if kills < KILLS else cli.TIMEOUT)
            except subprocess.TimeoutExpired:
                pass
            ended = process.poll() is not None
            process.kill()
            _, errors = process.communicate(timeout=cli.TIMEOUT)
            if ended:
                self.assertEqual(process.returncode, 0, errors)
                self.assertEqual(self.bytes_of("whole.graft"), self.bytes_of("resumed.graft"), f"after {kills} kills")
                ends += 1
                shutil.rmtree(self.path("store"))
                continue
            kills += 1
            if os.path.exists(self.path("store/ROOT")):
                self.graft("checkpoint", "verify", "store")
        print(f"{kills} kills, {ends} runs")

    def test_metrics_hold_each_step_once(self):
        """Rows that a killed run wrote after its last checkpoint, and one that it was writing, come again."""
        rows = lambda name: [json.loads(line) for line in self.bytes_of(name).decode().splitlines()]
        self.graft("train", "mlp.graft", *self.FLAGS, "--metrics", "whole.jsonl", "-o", "whole.graft")
        whole = rows("whole.jsonl")
        command = [cli.GRAFT, "train", "mlp.graft", *self.FLAGS, *self.CHECKPOINT, "--resume", "--metrics", "m.jsonl", "-o", "b.graft"]
        process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and (not os.path.exists(self.path("m.jsonl")) or len(self.bytes_of("m.jsonl").splitlines()) < 30):
            time.sleep(0.001)
        process.kill()
        process.wait()
        with open(self.path("m.jsonl"), "ab") as file:
            file.write(b"".join(json.dumps({"kind": "step", "step": step, "loss": 1.0}).encode() + b"\n" for step in (121, 122)))
            file.write(b'{"kind":"st')
        self.graft(*command[1:])
        self.assertEqual([(row["step"], row["loss"]) for row in rows("m.jsonl")], [(row["step"], row["loss"]) for row in whole])

    def test_a_resume_with_other_options_is_refused(self):
        self.graft("train", "mlp.graft", *self.FLAGS, *self.CHECKPOINT)
        self.fails("train", "mlp.graft", *self.FLAGS, *self.CHECKPOINT, says=("resume it, or take another folder",))
        self.fails("train", "mlp.graft", *self.FLAGS, *self.CHECKPOINT, "--resume", "--lr", "0.5",
                   says=("another optimizer",))
        # What the snapshot has and the command lacks counts, too.
        for more, says in ((("--matmul-precision", "high"), "another matmul-precision"),
                           (("--freeze", "fc1.weight"), "another freeze")):
            store = ("--checkpoint", more[1], "--checkpoint-every", 7)
            self.graft("train", "mlp.graft", *self.FLAGS, *store, *more)
            self.fails("train", "mlp.graft", *self.FLAGS, *store, "--resume", says=(says, more[1]))
            self.fails("train", "mlp.graft", *self.FLAGS, *self.CHECKPOINT, "--resume", *more, says=(says, more[1]))
            self.graft("train", "mlp.graft", *self.FLAGS, *store, *more, "--resume")
        self.fails("train", "mlp.graft", "--data", "digits:?count=340", *self.FLAGS[2:], *self.CHECKPOINT, "--resume",
                   says=("another data:",))
        self.graft("checkpoint", "list", "store")
        self.graft("checkpoint", "prune", "store", "--keep", "1")
        self.assertIn("1 snapshots", self.graft("checkpoint", "verify", "store"))

    def test_a_step_that_differs_from_the_journal(self):
        """A label that the fingerprint of the data does not cover changes after the run was killed."""
        labels = [i * 7 % 10 for i in range(130)]
        self.images(130)
        self.labels(labels)
        command = ["train", "mlp.graft", "--data", "npy:x.npy,y.npy", "--batch", "65", "--checkpoint", "store",
                   "--checkpoint-every", "0", "--resume", "--quiet"]
        process = subprocess.Popen([cli.GRAFT, *command, "--steps", "1000000", "--metrics", "metrics.jsonl"], cwd=self.folder)
        while not os.path.exists(self.path("metrics.jsonl")) or len(self.bytes_of("metrics.jsonl").splitlines()) < 5:
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        process.kill()
        process.wait()
        labels[1] += 1
        self.labels(labels)
        self.fails(*command, "--steps", "4", says=("another result than the journal has",))
        self.graft(*command, "--steps", "4", "--on-mismatch", "continue")
        self.assertEqual(json.loads(self.graft("checkpoint", "list", "store", "--json"))["snapshots"][-1]["step"], 4)

    def test_history_can_be_listed_tagged_compared_and_gone_back_to(self):
        self.graft("train", "mlp.graft", *self.FLAGS, *self.CHECKPOINT, "--keep", "30", "-o", "trained.graft")
        history = json.loads(self.graft("checkpoint", "list", "store", "--json"))
        snapshots = history["snapshots"]
        self.assertEqual(snapshots[-1]["step"], 120)
        self.assertGreater(len(snapshots), 5, "more stay than without --keep")
        self.assertTrue(snapshots[-1]["head"])
        self.assertLess(snapshots[-1]["loss"], snapshots[1]["loss"])
        old = snapshots[2]
        self.graft("checkpoint", "tag", "store", old["number"], "good")
        self.assertIn("good", self.graft("checkpoint", "list", "store"))
        changed = json.loads(self.graft("checkpoint", "diff", "store", "good", snapshots[-1]["number"], "--json"))
        streams = {stream["name"]: stream["difference"] for stream in changed["streams"]}
        self.assertEqual(streams["fc1.weight"], "changed")
        self.assertEqual(streams["fc1.weight/gradient"], "same", "accumulators are zero between steps")

        # A model out of it, whose file the run has noted.
        last = snapshots[-1]["number"]
        self.graft("checkpoint", "restore", "store", last, "-o", "restored.graft")
        self.assertEqual(self.bytes_of("trained.graft"), self.bytes_of("restored.graft"))
        self.fails("checkpoint", "restore", "store", "nonesuch", "-o", "x.graft", says=("no snapshot \"nonesuch\"",))

        # Back, and on: the same steps give the same run; with another learning rate only where that is asked for.
        self.graft("checkpoint", "branch", "store", "good")
        again = self.graft("train", "mlp.graft", *self.FLAGS, *self.CHECKPOINT, "--keep", "30", "--resume", "-o",
                           "again.graft")
        self.assertIn("Checkpoint of step 120", again)
        self.assertEqual(self.bytes_of("trained.graft"), self.bytes_of("again.graft"))
        other = (*self.FLAGS, *self.CHECKPOINT, "--resume", "--from", "good", "--lr", "0.01", "-o", "other.graft")
        self.fails("train", "mlp.graft", *other, says=("another optimizer",))
        self.graft("train", "mlp.graft", *other, "--with-changes")
        self.assertNotEqual(self.bytes_of("trained.graft"), self.bytes_of("other.graft"))
        self.graft("checkpoint", "prune", "store")
        left = json.loads(self.graft("checkpoint", "list", "store", "--json"))["snapshots"]
        self.assertIn(old["number"], [snapshot["number"] for snapshot in left], "what has a tag stays")
        self.assertEqual(len(left), 2)

    def test_tensors_leave_as_safetensors(self):
        self.graft("train", "mlp.graft", *self.FLAGS, *self.CHECKPOINT)
        number = json.loads(self.graft("checkpoint", "list", "store", "--json"))["snapshots"][-1]["number"]
        self.graft("checkpoint", "export", "store", number, "-o", "state.safetensors")
        data = self.bytes_of("state.safetensors")
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + length])
        self.assertEqual(header["__metadata__"]["step"], "120")
        begin, end = header["fc1.weight"]["data_offsets"]
        self.assertEqual(header["fc1.weight"]["dtype"], "F32")
        self.assertEqual(end - begin, 4 * math.prod(header["fc1.weight"]["shape"]))
        self.assertEqual(header["fc1.weight/exp_avg"]["shape"], header["fc1.weight"]["shape"])
        self.assertEqual(max(t["data_offsets"][1] for n, t in header.items() if n != "__metadata__") + 8 + length,
                         len(data))

    def stops_within(self, steps):
        """How many stops of a run fell into a step; it ends as one without stops."""
        flags = ("--data", "digits:?count=1500", "--batch", "5", "--accumulate", "100", "--steps", str(steps), "--seed",
                 "5", "--quiet")
        self.graft("train", "mlp.graft", *flags, "-o", "whole.graft")
        command = [cli.GRAFT, "train", "mlp.graft", *flags, "--checkpoint", f"store{steps}", "--resume", "-o",
                   "parts.graft"]
        within = 0
        for stop in range(40):
            process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       text=True)
            while process.stderr.readline().startswith("Training"):
                pass  # the handlers are there once the run goes on
            time.sleep(0.15 * 1.15**stop)  # later ones are longer, so that slow machines come to the end as well
            process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=cli.TIMEOUT)
            self.assertEqual(process.returncode, 130 if "Stopped" in output else 0, output + errors)
            within += "samples of the next" in output
            if "Stopped" not in output:
                break
        else:
            self.fail("40 stops, and the run has not come to its end.")
        self.assertEqual(self.bytes_of("whole.graft"), self.bytes_of("parts.graft"))
        return within

    def test_a_stop_within_a_step_is_gone_on_with(self):
        within = 0
        for steps in (4, 60, 600):  # the more where a GPU is at the end before it is stopped
            within = within or self.stops_within(steps)
        self.assertGreater(within, 0)
        print(f"{within} stops within a step")

    def test_a_folder_that_goes_away_does_not_end_training(self):
        flags = (*self.FLAGS, *self.CHECKPOINT)
        process = subprocess.Popen([cli.GRAFT, "train", "mlp.graft", *flags, "-o", "trained.graft"], cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not os.path.exists(self.path("store/snapshot-0000000000000002")):
            time.sleep(0.01)
        os.rename(self.path("store"), self.path("gone"))
        output, errors = process.communicate(timeout=cli.TIMEOUT)
        self.assertEqual(process.returncode, 1, output + errors)
        self.assertIn("Wrote trained.graft", output)
        self.assertIn("The last snapshot is as it was", errors)
        self.graft("checkpoint", "verify", "gone")

    def test_a_warm_start_begins_with_old_weights(self):
        self.graft("train", "mlp.graft", *self.FLAGS, *self.CHECKPOINT, "-o", "trained.graft")
        self.graft("train", "mlp.graft", "--data", "digits:?count=20", "--steps", "1", "--optimizer", "sgd", "--lr",
                   "1e-30", "--quiet", "--warm-start", "store", "-o", "warm.graft")
        self.assertEqual(self.bytes_of("trained.graft"), self.bytes_of("warm.graft"))
        # The last @ separates the snapshot: folders may have one in their names.
        first = json.loads(self.graft("checkpoint", "list", "store", "--json"))["snapshots"][0]["number"]
        os.rename(self.path("store"), self.path("st@re"))
        self.graft("train", "mlp.graft", "--data", "digits:?count=20", "--steps", "1", "--optimizer", "sgd", "--lr",
                   "1e-30", "--quiet", "--warm-start", f"st@re@{first}", "-o", "first.graft")
        self.assertNotEqual(self.bytes_of("warm.graft"), self.bytes_of("first.graft"))

    def test_flags_that_make_no_sense_are_refused(self):
        train = ("train", "mlp.graft", "--data", "digits:?count=20", "--steps", "1", "--checkpoint", "store")
        self.fails(*train, "--journal", "often", says=("--journal takes step", '"often"'))
        self.fails(*train, "--journal", "0ms", says=("--journal takes step",))
        self.fails(*train, "--from", "3", says=("--from needs --resume",))


if __name__ == "__main__":
    cli.main()

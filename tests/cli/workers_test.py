"""`graft train --workers`: the bits of one worker, whatever becomes of a run."""

import json
import os
import signal
import socket
import subprocess
import time

import cli
import small_network
from cli import CliTest, LanguageTest


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

    # The rate falls with every evaluation, and the run ends after the fourth.
    WATCHED = (("--schedule", "plateau", "--lr", "2e-9", "--patience", 0, "--gamma", 0.5, "--eval-every", 2),
               ("--early-stop", "loss,patience=3,min-delta=10", "--eval-every", 2))

    def test_evaluations_of_worker_0_change_the_steps_of_all(self):
        for watched in self.WATCHED:
            flags = (*self.FLAGS, "--eval", "npy:x.npy,y.npy", *watched, "--metrics", "metrics.jsonl")
            self.graft(*flags, "-o", "one.graft")
            alone = [(row["step"], row["loss"], row["lr"]) for row in self.metrics("step")]
            self.assertEqual(len(alone), 8 if "--early-stop" in watched else 12)
            self.assertEqual(len({rate for _, _, rate in alone}), 1 if "--early-stop" in watched else 5)
            for more in (("--workers", 2), ("--workers", 3, "--shard-optimizer", "--checkpoint", watched[0].strip("-"))):
                self.graft(*flags, *more, "-o", "several.graft")
                self.same_bytes("one.graft", "several.graft")
                self.assertEqual([(row["step"], row["loss"], row["lr"]) for row in self.metrics("step")], alone)

    def test_memory_and_traffic_are_known_beforehand(self):
        flags = ("plan", "lenet.graft", "--batch", 4, "--accumulate", 4, "--json")
        alone = json.loads(self.graft(*flags))
        self.assertNotIn("workers", alone)
        three = json.loads(self.graft(*flags, "--workers", 3))
        gradients = 4 * 431080  # of LeNet's parameters
        # Two slots on their way, the sum, and a third of all four.
        self.assertEqual(three["workers"], {"number": 3, "micro_batches": 4, "most_of_one": 2,
                                            "host_bytes": 3 * gradients + 4 * -(-gradients // 3), "bytes_sent": 2 * gradients})
        self.assertGreater(three["total"], alone["total"])
        # Of one slot each the own one is read where it is: the sum, and a quarter of the others.
        four = json.loads(self.graft(*flags, "--workers", 4))
        self.assertEqual(four["workers"]["host_bytes"], gradients + 3 * gradients // 4)
        shared = json.loads(self.graft(*flags, "--workers", 3, "--shard-optimizer"))
        most = 4 * 2 * 400000  # both moments of the largest parameter, which is dealt first
        self.assertLess(abs(shared["memory"]["optimizer"] - most), 4096)
        self.assertGreater(three["memory"]["optimizer"], 4 * 2 * 431080)
        self.assertEqual(shared["workers"]["bytes_sent"], 8 * gradients // 3)
        self.refused("plan", "lenet.graft", "--shard-optimizer", names="--shard-optimizer")
        self.refused("plan", "lenet.graft", "--mode", "infer", "--workers", 2, names="--workers")

    def steps_before(self):
        try:
            with open(self.path("metrics.jsonl")) as file:
                return sum(json.loads(line)["kind"] == "step" for line in file if line.endswith("\n"))
        except FileNotFoundError:
            return 0

    def until_steps(self, count, *flags, every=2):
        """A run that has done so many steps, one of them itself: before that it may not listen to signals yet."""
        count = max(count, self.steps_before() + 1)
        command = [cli.GRAFT, *map(str, self.FLAGS), "--metrics", "metrics.jsonl", "--checkpoint", "kept", "--checkpoint-every",
                   str(every), *map(str, flags)]
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

    def workers(self, folder):
        return json.loads(self.graft("checkpoint", "list", folder, "--workers", "--json"))["workers"]

    def test_the_checkpoint_tells_of_each_worker(self):
        process = self.until_steps(5, "--workers", 3)
        process.kill()
        process.communicate()
        told = self.workers("kept")
        self.graft("checkpoint", "verify", "kept")
        last = [row for row in told if row["snapshot"] == "journal"]
        kept = [row for row in told if row["snapshot"] != "journal"]
        self.assertEqual([row["worker"] for row in kept[:3]], [0, 1, 2])
        rows = {row["step"]: row for row in self.metrics()}
        for three in (last, kept[-3:]):
            if not three:
                continue  # the kill came just as a snapshot began a new journal
            step = three[0]["step"]
            self.assertEqual({row["step"] for row in three}, {step})
            self.assertEqual({row["host"] for row in three}, {socket.gethostname()[:63]})
            self.assertEqual(sum(row["micro_batches"] for row in three), 4 if step % 6 else 3)
            self.assertEqual(sum(row["samples"] for row in three), 16 if step % 6 else 10)
            self.assertEqual([row["first_sample"] for row in three][0], 0)
            self.assertEqual({row["place"] for row in three}, {(step - 1) % 6 * 16})
            self.assertEqual({row["seed"] for row in three}, {3})
            self.assertTrue(all(row["computing_seconds"] > 0 for row in three if row["samples"]))
            if step in rows:  # the last one's line may not be written
                mean = sum(row["loss"] * row["samples"] for row in three) / sum(row["samples"] for row in three)
                self.assertAlmostEqual(mean, rows[step]["loss"], 6)
                self.assertEqual(rows[step]["shares"], [row["micro_batches"] for row in three])
        self.assertIn("worker", self.graft("checkpoint", "list", "kept", "--workers"))
        # One worker has no section, and its run goes on from the same store.
        self.graft(*self.FLAGS, "--checkpoint", "kept", "--resume", "-o", "resumed.graft")
        self.assertEqual([row for row in self.workers("kept") if row["step"] == 12], [])
        self.graft(*self.FLAGS, "-o", "one.graft")
        self.same_bytes("one.graft", "resumed.graft")

    def test_the_journal_tells_of_each_worker(self):
        process = self.until_steps(3, "--workers", 2, every=1000)
        process.kill()
        process.communicate()
        self.assertEqual([row["worker"] for row in self.workers("kept") if row["snapshot"] == "journal"], [0, 1])

    def test_the_optimizers_state_is_shared_out(self):
        self.graft(*self.FLAGS, "-o", "one.graft")
        self.graft(*self.FLAGS, "--workers", 3, "--shard-optimizer", "-o", "shared.graft")
        self.same_bytes("one.graft", "shared.graft")
        process = self.until_steps(3, "--workers", 4, "--shard-optimizer")
        process.kill()
        process.communicate()
        process = self.until_steps(5, "--resume", "--workers", 2)
        process.send_signal(signal.SIGTERM)
        process.communicate()
        process = self.until_steps(7, "--resume", "--workers", 3, "--shard-optimizer")
        process.send_signal(signal.SIGTERM)
        self.assertIn("Checkpoint of step", process.communicate()[0])
        self.graft(*self.FLAGS, "--checkpoint", "kept", "--resume", "--workers", 2, "--shard-optimizer", "-o", "resumed.graft")
        self.same_bytes("one.graft", "resumed.graft")
        self.graft("checkpoint", "verify", "kept")
        # All of the state is in the last snapshot.
        self.graft("checkpoint", "export", "kept", str(self.snapshots("kept")[-1]["number"]), "-o", "state.safetensors")
        with open(self.path("state.safetensors"), "rb") as file:
            names = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        self.assertEqual(sum(name.endswith("/exp_avg") for name in names), 8)
        self.fails(*self.FLAGS, "--shard-optimizer", says=("several workers",))
        self.fails(*self.FLAGS, "--workers", 2, "--shard-optimizer", "--ema", 0.9, says=("Running means",))

    def snapshots(self, folder):
        return json.loads(self.graft("checkpoint", "list", folder, "--json"))["snapshots"]

    def test_half_the_bytes_give_other_bits_the_same_for_any_number(self):
        for name, flags in (("one", ()), ("two", ("--workers", 2, "--wire", "bf16")), ("three", ("--workers", 3, "--wire", "bf16"))):
            self.graft(*self.FLAGS, *flags, "-o", f"{name}.graft")
        self.same_bytes("two.graft", "three.graft")
        with self.assertRaises(AssertionError):
            self.same_bytes("one.graft", "two.graft")
        self.fails(*self.FLAGS, "--wire", "bf16", says=("several workers",))
        self.refused(*self.FLAGS, "--workers", 2, "--wire", "f8", names="--wire")

    def test_what_one_cannot_do_ends_all_with_a_sentence(self):
        self.fails(*self.FLAGS, "--workers", 2, "--devices", "0,no-such-device",
                   says=("Worker 1 stopped: No Vulkan device matches \"no-such-device\"",))
        self.fails(*self.FLAGS, "--workers", 2, "--shard-optimizer", "--devices", "0,no-such-device", "-o", "lost.graft",
                   says=("Worker 1 stopped",))
        self.assertFalse(os.path.exists(self.path("lost.graft")))
        self.fails(*self.FLAGS, "--workers", 2, "--fetch", "x", "--fetch-out", "y", says=("several workers",))
        self.fails(*self.FLAGS, "--workers", 2, "--recover-device", says=("one worker",))
        self.fails(*self.FLAGS, "--devices", "0,1", says=("--workers",))
        self.refused(*self.FLAGS, "--workers", 0, names="--workers")
        self.labels([i % 10 for i in range(89)] + [12])
        self.fails(*self.FLAGS, "--workers", 2, "-o", "bad.graft", says=("sample 89", "12"))


class WorkersOfASmallNetwork(CliTest):
    """What is drawn and what is kept from sample to sample: dropout, batch norm, in a residual block."""

    def test_any_number_writes_the_same_file(self):
        small_network.write(self.path("small.onnx"))
        self.graft("convert", "small.onnx", "-o", "small.graft")
        cli.save_npy(self.path("x.npy"), cli.random_floats(30 * 64, 5), (30, 1, 8, 8))
        self.labels([i % 4 for i in range(30)])
        flags = ("train", "small.graft", "--data", "npy:x.npy,y.npy", "--batch", 2, "--accumulate", 4, "--epochs", 2, "--seed", 3,
                 "--clip-norm", 1, "--quiet")
        files = []
        for more in ((), *(("--workers", number) for number in (2, 3, 4)), ("--workers", 3, "--shard-optimizer")):
            self.graft(*flags, *more, "-o", "out.graft")
            with open(self.path("out.graft"), "rb") as file:
                files.append(file.read())
        self.assertEqual([file == files[0] for file in files], [True] * 5)


class WorkersOfALanguageModel(LanguageTest):
    def test_adapters_and_ragged_texts(self):
        with open(self.path("texts.jsonl"), "w", encoding="utf-8") as file:
            for i in range(11):
                file.write(json.dumps({"text": "ab" + "b" * (i * 3 % 7)}) + "\n")
        flags = ("train", "tiny.graft", "--data", "jsonl:texts.jsonl", "--seq", 16, "--batch", 1, "--accumulate", 4, "--epochs",
                 2, "--lora", "r=2,alpha=4,dropout=0.1", "--neftune", 5, "--lr", 1e-2, "--seed", 5, "--quiet")
        files = []
        for name, more in (("one", ()), ("two", ("--workers", 2)), ("five", ("--workers", 5, "--shard-optimizer"))):
            self.graft(*flags, *more, "-o", f"{name}.graft")
            with open(self.path(f"{name}.graft"), "rb") as file:
                files.append(file.read())
        self.assertEqual(files[0], files[1])
        self.assertEqual(files[0], files[2])


if __name__ == "__main__":
    cli.main()

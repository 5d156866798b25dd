"""Exact forgetting: a run goes back before a record and becomes, bit for bit, one that never saw it; kills in between.

Usage: forget_test.py GRAFT [-v] [TEST ...]
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
import cli  # noqa: E402


class Forget(cli.CliTest):
    def setUp(self):
        super().setUp()
        self.pixels = cli.random_floats(40 * 784, 1)
        self.save("old", range(16))
        self.save("new", range(16, 40))
        self.graft("memory", "add", "m", "--data", "npy:old_x.npy,old_y.npy", "--model", "mlp.graft", "--prefix", "r", "--held-out", "0.2")
        self.records = {row["id"]: row for row in json.loads(self.graft("memory", "list", "m", "--json"))}
        self.trained = sorted(name for name, row in self.records.items() if row["part"] == "training")

    def save(self, name, rows):
        rows = list(rows)
        cli.save_npy(self.path(f"{name}_x.npy"), [v for row in rows for v in self.pixels[784 * row:784 * (row + 1)]], (len(rows), 1, 28, 28))
        cli.save_npy(self.path(f"{name}_y.npy"), [row % 3 for row in rows], (len(rows),), "i")

    MIX = ("--data", "npy:new_x.npy,new_y.npy", "--memory", "m", "--memory-share", "0.4")
    ALONE = ("--data", "memory:m", "--keyed-order")

    def flags(self, data, *more):
        return ("train", "mlp.graft", *data, "--batch", 4, "--quiet", "--checkpoint", "run", "--checkpoint-every", 3, "--keep", 20,
                "-o", "out.graft", *more)

    def bytes_of(self, name="out.graft"):
        with open(self.path(name), "rb") as file:
            return file.read()

    def state(self):
        rows = json.loads(self.graft("checkpoint", "list", "run", "--json"))["snapshots"]
        return [row["step"] for row in rows]

    def never(self, record, data, *more):
        """The model of a new run whose memory lost the record before the first step."""
        for name in ("run", "m", "out.graft"):
            path = self.path(name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        self.graft("memory", "add", "m", "--data", "npy:old_x.npy,old_y.npy", "--model", "mlp.graft", "--prefix", "r", "--held-out", "0.2")
        self.graft("memory", "remove", "m", record)
        self.graft(*self.flags(data, *more))
        return self.bytes_of()

    def forget(self, record, *more):
        return json.loads(self.graft("checkpoint", "forget", "run", "--record", record, "--json", *more))

    def test_a_run_becomes_one_that_never_saw_the_record(self):
        for data, more in ((self.MIX, ("--epochs", 3, "--optimizer", "adamw")), (self.ALONE, ("--steps", 14, "--accumulate", 2)),
                           (self.MIX, ("--epochs", 2, "--schedule", "cosine", "--workers", 2)),
                           # The schedule is another one for fewer steps: all are taken again.
                           (self.ALONE, ("--epochs", 3, "--schedule", "cosine"))):
            with self.subTest(data=data, more=more):
                self.graft(*self.flags(data, *more))
                before = self.bytes_of()
                record = self.trained[4]
                cost = self.forget(record, "--dry-run")
                self.assertEqual(self.bytes_of(), before)
                self.assertIn(record, self.graft("memory", "list", "m"))
                done = self.forget(record, "--receipt", "receipt.json")
                with open(self.path("receipt.json"), encoding="utf-8") as file:
                    self.assertEqual(json.load(file), done)
                after = self.bytes_of()
                if more[0] != "--epochs" or data != self.ALONE:
                    self.assertEqual(done["steps_again"], cost["steps"])
                self.assertEqual(done["hash_before"], cost["hash_before"])
                self.assertNotEqual(done["hash_before"], done["hash_after"])
                self.assertNotIn(record.encode() + b"\0", self.bytes_of("m"))
                self.assertNotEqual(after, before)
                self.assertEqual(self.graft("checkpoint", "verify", "run")[-12:], "0 problems.\n")
                self.assertEqual(self.never(record, data, *more), after)
                shutil.rmtree(self.path("run"))
                self.graft("memory", "add", "m", "--data", "npy:old_x.npy,old_y.npy", "--model", "mlp.graft", "--prefix", "r")

    def test_a_run_that_is_stopped_stays_as_long(self):
        self.graft(*self.flags(self.MIX, "--steps", 8))
        steps = self.state()
        record = self.trained[2]
        done = self.forget(record)
        self.assertEqual(done["step_after"], 8)
        self.assertEqual(self.state()[-1], steps[-1])
        # And it continues as any run does, with the memory as it is now.
        self.graft(*self.flags(self.MIX, "--steps", 12, "--resume"))

    def test_a_record_that_no_step_used_is_only_erased(self):
        held_out = next(name for name, row in self.records.items() if row["part"] == "held out")
        self.graft(*self.flags(self.MIX, "--epochs", 1))
        before = self.bytes_of()
        self.assertIn("No step used", self.graft("checkpoint", "forget", "run", "--record", held_out, "--dry-run"))
        done = self.forget(held_out)
        self.assertEqual((done["hash_after"], done["steps_again"], self.bytes_of()), (done["hash_before"], 0, before))
        self.fails("checkpoint", "forget", "run", "--record", held_out, says=[f'has no record "{held_out}"'])

    def test_a_killed_command_is_given_again(self):
        flags = ("--epochs", 6)
        self.graft(*self.flags(self.MIX, *flags))
        record = self.trained[1]
        command = [cli.GRAFT, "checkpoint", "forget", "run", "--record", record]
        started = time.monotonic()
        shutil.copytree(self.path("run"), self.path("run-0"))
        shutil.copy(self.path("m"), self.path("m-0"))
        shutil.copy(self.path("out.graft"), self.path("out-0.graft"))
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)
        whole, result = time.monotonic() - started, self.bytes_of()
        for i in range(4):
            shutil.rmtree(self.path("run"))
            shutil.copytree(self.path("run-0"), self.path("run"))
            shutil.copy(self.path("m-0"), self.path("m"))
            shutil.copy(self.path("out-0.graft"), self.path("out.graft"))
            process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(whole * (i + 1) / 6)
            process.send_signal(signal.SIGKILL)
            process.wait()
            if os.path.exists(self.path("run/forget.json")):
                self.fails("checkpoint", "forget", "run", "--record", self.trained[3], says=[f'while it forgot the record "{record}"'])
            again = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
            if again.returncode != 0:  # it was done before the kill
                self.assertIn(f'has no record "{record}"', again.stderr)
            self.assertEqual(self.bytes_of(), result, i)

    def test_runs_that_cannot_forget_say_why(self):
        self.graft(*self.flags(("--data", "npy:new_x.npy,new_y.npy"), "--steps", 2))
        self.fails("checkpoint", "forget", "run", "--record", "r1", says=["does not say how it was trained"])
        shutil.rmtree(self.path("run"))
        self.graft(*self.flags(("--data", "memory:m"), "--steps", 2))
        self.fails("checkpoint", "forget", "run", "--record", "r1", says=["order by keys"])


if __name__ == "__main__":
    cli.main()

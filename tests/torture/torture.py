"""Kills, failing system calls, full disks and damaged files, at random; and after each, what there should be.

Usage: torture.py GRAFT FAILING_CALLS MINUTES|--faults N [--seed N] [--only train|write|prune]   (77: no device)

GRAFT: the command line tool. FAILING_CALLS: the library of failing_calls.cpp. A run of training that was harmed must, when it
is resumed, end with the bytes of one that was not. A command that writes a file must leave the old or the whole new one.
Anything else is counted as lost, and printed with the seed and the harm that led to it.
"""

import argparse
import errno
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECONDS = 120  # a command takes about one
FAIL_WITH = [errno.ENOSPC, errno.EIO, errno.EINTR, errno.EACCES, errno.ENOMEM]


class Lost(Exception):
    pass


def contents(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


class Torture:
    FLAGS = ("--data", "digits:?count=60", "--batch", "10", "--accumulate", "2", "--clip-norm", "1", "--steps", "12",
             "--seed", "5", "--quiet")
    STORE = ("--checkpoint", "store", "--checkpoint-every", "2")

    def __init__(self, graft, failing_calls, seed):
        self.graft, self.failing_calls = os.path.abspath(graft), os.path.abspath(failing_calls)
        self.chance = random.Random(seed)
        self.folder = tempfile.mkdtemp(prefix="graft_torture_")
        self.cache = tempfile.mkdtemp(prefix="graft_torture_cache_")
        # Not the user's cache, nor below the folder whose calls fail.
        self.environment = dict(os.environ, XDG_CACHE_HOME=self.cache, ASAN_OPTIONS="detect_leaks=0")
        self.kills = self.faults = self.damages = self.refused = self.ends = self.lost = 0
        self.struck = 0  # faults after which a command could not do its work
        self.reasons = {}  # of refusals, with the harm that led to the first of each
        self.tried = []  # the harm since the last good state, for messages

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, arguments, fail=None, limit=None, calls=None):
        environment = dict(self.environment)
        if fail or calls:
            environment["LD_PRELOAD"] = self.failing_calls
        if fail:
            environment["GRAFT_TEST_FAIL"] = fail
        if calls:
            environment["GRAFT_TEST_CALLS"] = calls

        def limited():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        return subprocess.Popen([self.graft, *map(str, arguments)], cwd=self.folder, env=environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=limited if limit else None)

    def end(self, process):
        out, err = process.communicate(timeout=SECONDS)
        return process.returncode, out + err

    def sound(self, *arguments, **options):
        """Nothing happens to it, so it must succeed."""
        code, text = self.end(self.start(arguments, **options))
        if code != 0:
            raise Lost(f"graft {' '.join(map(str, arguments))} ended with {code}:\n{text}")
        return text

    def check_sentence(self, code, text):
        """A command that could not do its work says why in a sentence, and nothing else happens to it."""
        if code == 0:
            return
        self.struck += 1
        last = text.strip().splitlines()[-1] if text.strip() else ""
        if code != 1 or not last.startswith("graft: ") or not last.endswith("."):
            raise Lost(f"ended with {code}, and not with one sentence:\n{text}")

    def count_calls(self, arguments):
        file = os.path.join(self.cache, "calls")
        self.sound(*arguments, calls=file)
        with open(file) as lines:
            return {name: int(count) for name, count in map(str.split, lines) if int(count) > 0}

    def harm(self, arguments, calls, length):
        """Runs a command that something happens to; its exit status, or None where it was killed."""
        kind = self.chance.choice(["time", "kill", "kill", "fail", "fail", "fail", "half", "limit"])
        if kind == "time":
            wait = self.chance.uniform(0.0, length)
            self.tried.append(f"killed after {wait:.3f} s")
            self.kills += 1
            process = self.start(arguments)
            try:
                process.wait(wait)
            except subprocess.TimeoutExpired:
                pass
            process.kill()
            code, text = self.end(process)
            return None if code == -signal.SIGKILL else code
        if kind == "limit":
            limit = self.chance.randrange(1, 2 << self.chance.randrange(6, 21))
            self.tried.append(f"files of {limit} bytes at most")
            self.faults += 1
            code, text = self.end(self.start(arguments, limit=limit))
            self.check_sentence(code, text)
            return code
        name = "pwrite" if kind == "half" and "pwrite" in calls else self.chance.choice(sorted(calls))
        how = kind
        if kind == "fail" or name not in ("pwrite", "any") and kind == "half":
            error = self.chance.choice(FAIL_WITH)
            # A call that is always interrupted would be tried for ever.
            how = f"{error}{'+' if error != errno.EINTR and self.chance.random() < 0.4 else ''}"
        fail = f"{name}:{self.chance.randint(1, calls[name])}:{how}"
        self.tried.append(fail)
        code, text = self.end(self.start(arguments, fail=fail))
        if code == -signal.SIGKILL and how == "kill":
            self.kills += 1
            return None
        self.faults += 1
        self.check_sentence(code, text)
        return code

    # Training.

    def prepare(self):
        self.sound("convert", "--example", "mlp", "-o", "mlp.onnx")
        self.sound("convert", "mlp.onnx", "-o", "mlp.graft")
        self.sound("train", "mlp.graft", *self.FLAGS, "-o", "whole.graft")
        start = time.monotonic()
        self.sound("train", "mlp.graft", *self.FLAGS, *self.STORE, "-o", "b.graft")
        self.length = time.monotonic() - start
        self.whole = contents(self.path("whole.graft"))
        if self.whole != contents(self.path("b.graft")):
            raise Lost("checkpoints change the training")
        os.rename(self.path("store"), self.path("finished"))
        self.train = ["train", "mlp.graft", *self.FLAGS, *self.STORE, "--resume", "-o", "resumed.graft"]
        self.calls = self.count_calls(self.train)
        shutil.rmtree(self.path("store"))
        os.remove(self.path("resumed.graft"))

    def damage_newest(self):
        """The newest file of a kind becomes shorter, other, none, or that of another run."""
        names = sorted(name for name in os.listdir(self.path("store")) if name != "LOCK")
        kind = self.chance.choice(sorted({name.partition("-")[0] for name in names}))
        name = [name for name in names if name.startswith(kind)][-1]
        data = bytearray(contents(self.path("store/" + name)))
        how = self.chance.choice(["shorter", "flipped", "gone", "another"])
        others = [other for other in os.listdir(self.path("finished")) if other.startswith(kind)]
        self.tried.append(f"{name} {how}")
        if how == "gone":
            os.remove(self.path("store/" + name))
            return
        if how == "shorter":
            data = data[:self.chance.randrange(len(data))] if data else data
        elif how == "flipped" and data:
            data[self.chance.randrange(len(data))] ^= 1 << self.chance.randrange(8)
        elif others:
            data = contents(self.path("finished/" + self.chance.choice(others)))
        with open(self.path("store/" + name), "wb") as file:
            file.write(data)

    def train_once(self):
        """A run that is harmed some times, and then resumed to its end."""
        self.tried = []
        damaged = False
        for _ in range(self.chance.randint(1, 4)):
            code = self.harm(self.train, self.calls, self.length)
            if code == 0 and contents(self.path("resumed.graft")) != self.whole:
                raise Lost("a harmed run ended well with other weights")
            if os.path.exists(self.path("store/ROOT")):
                self.sound("checkpoint", "verify", "store")
                if self.chance.random() < 0.3:
                    self.damage_newest()
                    self.damages += 1
                    damaged = True
                    break
        code, text = self.end(self.start(self.train))
        if damaged and code != 0:
            self.check_sentence(code, text)
            self.refused += 1  # nothing to go on from: said so, and not guessed
            self.reasons.setdefault(text.strip().splitlines()[-1], "; ".join(self.tried))
        elif code != 0:
            raise Lost(f"the resume ended with {code}:\n{text}")
        elif contents(self.path("resumed.graft")) != self.whole:
            raise Lost("the resumed run has other weights")
        else:
            self.ends += 1
        for name in ("store", "resumed.graft"):
            full = self.path(name)
            shutil.rmtree(full) if os.path.isdir(full) else os.path.exists(full) and os.remove(full)

    # Commands that write one file, or change a store.

    def prepare_files(self):
        self.sound("train", "mlp.graft", "--data", "digits:?count=20", "--steps", "1", "--quiet", "--lora", "r=2", "-o",
                   "adapter.graft")
        last = json.loads(self.sound("checkpoint", "list", "finished", "--json"))["snapshots"][-1]["number"]
        self.commands = [
            ("o.graft", ["convert", "mlp.onnx", "-o", "o.graft"]),
            ("o.graft", ["merge", "mlp.graft", "--adapter", "adapter.graft", "-o", "o.graft"]),
            ("o.onnx", ["export", "whole.graft", "--source", "mlp.onnx", "-o", "o.onnx"]),
            ("o.safetensors", ["export", "whole.graft", "-o", "o.safetensors"]),
            ("o.graft", ["checkpoint", "restore", "finished", last, "-o", "o.graft"]),
            ("o.safetensors", ["checkpoint", "export", "finished", last, "-o", "o.safetensors"]),
        ]
        self.right = {}
        for name, command in self.commands:
            calls = self.count_calls(command)
            self.right[tuple(command)] = contents(self.path(name)), calls
            os.remove(self.path(name))
        shutil.copytree(self.path("finished"), self.path("store"))
        self.prune = ["checkpoint", "prune", "store", "--keep", "1"]
        self.prune_calls = self.count_calls(self.prune)
        shutil.rmtree(self.path("store"))

    def write_once(self):
        self.tried = []
        name, command = self.chance.choice(self.commands)
        right, calls = self.right[tuple(command)]
        old = self.chance.choice([None, b"old"])
        if old is not None:
            with open(self.path(name), "wb") as file:
                file.write(old)
        self.tried.append(" ".join(map(str, command)))
        code = self.harm(command, calls, 0.1)
        found = contents(self.path(name))
        if found != right and (code == 0 or found != old):
            raise Lost(f"{name} holds {'nothing' if found is None else len(found)} after {code}")
        self.sound(*command)
        if contents(self.path(name)) != right:
            raise Lost(f"{name} is another file the second time")
        os.remove(self.path(name))
        if left := [file for file in os.listdir(self.folder) if file.endswith(".tmp") or ".tmp" in file]:
            raise Lost(f"{left} were left, and the next command did not remove them")

    def prune_once(self):
        self.tried = ["prune"]
        shutil.copytree(self.path("finished"), self.path("store"))
        self.harm(self.prune, self.prune_calls, 0.1)
        self.sound("checkpoint", "verify", "store")
        last = json.loads(self.sound("checkpoint", "list", "store", "--json"))["snapshots"][-1]["number"]
        self.sound("checkpoint", "restore", "store", last, "-o", "p.graft")
        if contents(self.path("p.graft")) != self.whole:
            raise Lost("the newest snapshot has other weights")
        self.sound(*self.prune)
        os.remove(self.path("p.graft"))
        shutil.rmtree(self.path("store"))

    def done(self):
        return self.kills + self.faults + self.damages

    def go_on(self, until, only):
        while until() and self.lost < 10:
            # A run of training takes as long as thirty of the others.
            what = only or self.chance.choices(["train", "write", "prune"], [6, 6, 2])[0]
            try:
                {"train": self.train_once, "write": self.write_once, "prune": self.prune_once}[what]()
            except (Lost, subprocess.TimeoutExpired) as found:
                self.lost += 1
                kept = tempfile.mkdtemp(prefix="graft_lost_")
                shutil.copytree(self.folder, kept, dirs_exist_ok=True)
                print(f"LOST ({what}; {'; '.join(self.tried)}): {found}\nThe files are in {kept}.", flush=True)
                for name in ("store", "resumed.graft", "o.graft", "o.onnx", "o.safetensors", "p.graft"):
                    full = self.path(name)
                    shutil.rmtree(full) if os.path.isdir(full) else os.path.exists(full) and os.remove(full)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("graft")
    arguments.add_argument("failing_calls")
    arguments.add_argument("minutes", nargs="?", type=float)
    arguments.add_argument("--faults", type=int)
    arguments.add_argument("--seed", type=int, default=int(time.time()))
    arguments.add_argument("--only", choices=["train", "write", "prune"])
    given = arguments.parse_args()
    if (given.minutes is None) == (given.faults is None):
        arguments.error("say how many minutes, or --faults N")
    if subprocess.run([given.graft, "devices"], capture_output=True, timeout=SECONDS).returncode != 0:
        print("skipped: there is no Vulkan device")
        sys.exit(77)
    torture = Torture(given.graft, given.failing_calls, given.seed)
    start = time.monotonic()
    try:
        torture.prepare()
        torture.prepare_files()
        if given.faults is None:
            torture.go_on(lambda: time.monotonic() < start + 60 * given.minutes, given.only)
        else:
            torture.go_on(lambda: torture.done() < given.faults, given.only)
    finally:
        shutil.rmtree(torture.folder)
        shutil.rmtree(torture.cache)
    for reason, harm in torture.reasons.items():
        print(f"refused, for example after {harm}: {reason}")
    cpu = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"seed {given.seed}: {torture.kills} kills, {torture.faults} failing calls and full disks "
          f"({torture.struck} ended a command), {torture.damages} damaged files; {torture.ends} resumed runs ended with the same bytes, {torture.refused} were refused; "
          f"{torture.lost} lost; {time.monotonic() - start:.0f} s ({cpu.ru_utime + cpu.ru_stime:.0f} s of processor time)")
    if torture.faults > 20 and torture.struck == 0:
        print("No fault had any effect: is the library of failing_calls.cpp preloaded?")
    sys.exit(1 if torture.lost or torture.faults > 20 and torture.struck == 0 else 0)


if __name__ == "__main__":
    main()

"""Workers of which one is lost, stands still or is wrong: what the others do, by the command line and by libgraft_gloo."""

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
import unittest

import cli
from processes import ProcessTest, free_port, library


class LostWorkers(ProcessTest):
    ENDLESS = ("--steps", 10000000, "--metrics", "metrics.jsonl", "-o", "left.graft")

    def forget(self):
        self.port = free_port()
        for name in ("metrics.jsonl", "left.graft"):
            if os.path.exists(self.path(name)):
                os.remove(self.path(name))

    def ends_with_the_bits_of_one(self, processes):
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            code, said = self.said(process)
            self.assertEqual(code, 143, said)
        self.same_as_one("left.graft", len(self.rows()))

    def test_a_lost_part_of_the_optimizers_state_is_taken_from_the_checkpoint(self):
        for victim in (1, 0):
            with self.subTest(victim=victim):
                self.forget()
                flags = (*self.ENDLESS, "--shard-optimizer", "--checkpoint", f"kept{victim}", "--checkpoint-every", 3)
                run = [self.start(rank, *flags) for rank in range(3)]
                self.until("a snapshot", lambda: len(self.rows()) > 5)
                run[victim].kill()
                run[victim].wait()
                left = [process for rank, process in enumerate(run) if rank != victim]
                self.reads(left[0], "go on from the last checkpoint")
                self.reads(left[0], "Going on from step")
                before = len(self.rows())
                self.until("steps of those that are left", lambda: len(self.rows()) > before + 4)
                self.ends_with_the_bits_of_one(left)
                self.graft("checkpoint", "verify", f"kept{victim}")

    def test_a_part_that_is_lost_before_the_first_step_is_dealt_again(self):
        """A worker that has met the others is gone before its first exchange."""
        if with_sanitizer(library()):
            self.skipTest("Python does not load a library with a sanitizer")
        self.graft(*self.FLAGS, "--steps", 6, "-o", "one.graft")
        for victim, kept in ((1, ()), (0, ()), (1, ("--checkpoint", "kept1")), (0, ("--checkpoint", "kept0"))):
            with self.subTest(victim=victim, kept=kept):
                self.forget()
                flags = ("--steps", 6, "-o", "left.graft", "--shard-optimizer", *kept)
                comes = start_worker(self, victim, 3, self.port, "dies", SECRET)
                left = [self.start(rank, *flags, secret=SECRET) for rank in range(3) if rank != victim]
                for process in left:
                    code, said = self.said(process)
                    self.assertEqual(code, 0, said)
                    self.assertIn("A part of the optimizer's state is lost: the others begin again.", said)
                self.assertEqual(comes.wait(cli.TIMEOUT), 3)
                with open(self.path("one.graft"), "rb") as a, open(self.path("left.graft"), "rb") as b:
                    self.assertEqual(a.read(), b.read())

    def test_without_a_checkpoint_a_lost_part_ends_the_run(self):
        run = [self.start(rank, *self.ENDLESS, "--shard-optimizer", size=2) for rank in range(2)]
        self.until_a_step()
        run[1].kill()
        code, said = self.said(run[0])
        self.assertEqual(code, 1, said)
        self.assertIn("without --checkpoint there is no copy; start the run again", said)

    def flip_a_bit(self, process):
        """Of a parameter, wherever the process can write and has it: the device is in its memory."""
        with open(self.path("lenet.graft"), "rb") as file:
            model = file.read()
        known = model[len(model) // 2:][:256]  # of the largest tensor, which the steps do not move
        flipped = 0
        most = 1 << 30  # what is larger is a sanitizer's own
        with open(f"/proc/{process.pid}/maps", encoding="ascii") as file:
            areas = [re.match(r"(\w+)-(\w+) rw", line) for line in file]
        with open(f"/proc/{process.pid}/mem", "r+b", buffering=0) as memory:
            for begin, end in ((int(area[1], 16), int(area[2], 16)) for area in areas if area):
                try:
                    if end - begin > most:
                        continue
                    memory.seek(begin)
                    at = memory.read(end - begin).find(known)
                    if at < 0:
                        continue
                    memory.seek(begin + at)
                    memory.write(bytes([known[0] ^ 1]))
                    flipped += 1
                except OSError:
                    continue  # of a device, or gone by now
        return flipped

    def test_a_flipped_bit_is_named_or_healed(self):
        flags = (*self.ENDLESS, "--lr", "1e-30")
        for heal in ((), ("--heal",)):
            with self.subTest(heal=heal):
                self.forget()
                run = [self.start(rank, *flags, *heal) for rank in range(3)]
                self.until_a_step()
                try:
                    flipped = self.flip_a_bit(run[2])
                except OSError as refused:
                    self.skipTest(f"the system lets nobody write another's memory: {refused}")
                self.assertGreater(flipped, 0)
                named = "the parameters of these workers are not those of the others: 2."
                if not heal:
                    for process in run:
                        code, said = self.said(process)
                        self.assertEqual(code, 1, said)
                        self.assertIn(named, said)
                    continue
                self.reads(run[0], named)
                before = len(self.rows())
                self.until("steps of all", lambda: len(self.rows()) > before + 3)
                run[0].send_signal(signal.SIGTERM)
                for process in run:
                    code, said = self.said(process)
                    self.assertEqual(code, 143 if process is run[0] else 130, said)
                self.graft(*self.FLAGS, "--lr", "1e-30", "--steps", len(self.rows()), "-o", "one.graft")
                with open(self.path("one.graft"), "rb") as a, open(self.path("left.graft"), "rb") as b:
                    self.assertEqual(a.read(), b.read())


class Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("rank", ctypes.c_uint32), ("size", ctypes.c_uint32), ("address", ctypes.c_char_p),
                ("port", ctypes.c_uint16), ("secret", ctypes.c_char_p), ("timeout_ms", ctypes.c_uint64), ("silence_ms", ctypes.c_uint64),
                ("insecure_network", ctypes.c_int)]


EXCHANGE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p),
                            ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.c_uint64, ctypes.c_char_p,
                            ctypes.c_size_t)
REFORM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32), ctypes.POINTER(ctypes.c_uint32),
                          ctypes.c_char_p, ctypes.c_size_t)


class Group(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("rank", ctypes.c_uint32), ("size", ctypes.c_uint32), ("user", ctypes.c_void_p),
                ("exchange", EXCHANGE), ("leave", ctypes.c_void_p), ("reform", REFORM), ("waiting", ctypes.c_void_p),
                ("shard_optimizer", ctypes.c_int), ("moves_shares", ctypes.c_int), ("bf16_wire", ctypes.c_int)]


class Worker:
    """In a process of its own: what it prints is what it found."""

    def __init__(self, path, rank, size, port, secret):
        self.library = ctypes.CDLL(path)
        self.group, self.words = Group(), ctypes.create_string_buffer(512)
        options = Options(ctypes.sizeof(Options), rank, size, b"127.0.0.1", port, secret.encode(), 60000, 1000)
        status = self.library.graft_gloo_join(ctypes.byref(options), ctypes.byref(self.group), self.words, len(self.words))
        assert status == 0, self.words.value

    def exchange(self, out, sizes, deadline=2**64 - 1):
        """The status, and what came. Of several parts for each: those for worker 0, 1, ..., then the second ones."""
        count = len(out)
        given = [ctypes.create_string_buffer(part, max(len(part), 1)) for part in out]
        taken = [ctypes.create_string_buffer(max(size, 1)) for size in sizes]
        addresses = lambda parts: (ctypes.c_void_p * count)(*(ctypes.addressof(part) for part in parts))
        bytes_of = lambda numbers: (ctypes.c_size_t * count)(*numbers)
        status = self.group.exchange(self.group.user, count // self.group.size, addresses(given), bytes_of(len(part) for part in out),
                                     addresses(taken), bytes_of(sizes), deadline, self.words, len(self.words))
        return status, [part.raw[:size] for part, size in zip(taken, sizes)]

    def reform(self):
        rank, size = ctypes.c_uint32(), ctypes.c_uint32()
        status = self.group.reform(self.group.user, ctypes.byref(rank), ctypes.byref(size), self.words, len(self.words))
        assert status == 0, self.words.value
        self.group.rank, self.group.size = rank.value, size.value

    def trade(self, *lengths):
        """Other parts from each to each."""
        rank, size = self.group.rank, self.group.size
        part = lambda p, a, b: bytes((p * 11 + a * 7 + b * 3 + i) % 251 for i in range(lengths[p] * (a + 1)))
        each = [(p, r) for p in range(len(lengths)) for r in range(size)]
        status, came = self.exchange([part(p, rank, r) for p, r in each], [lengths[p] * (r + 1) for p, r in each])
        assert status == 0, self.words.value
        assert came == [part(p, r, rank) for p, r in each]

    def work(self, task):
        if task == "dies":
            time.sleep(2)  # until the others are connected as well
            os._exit(3)
        if task in ("waits", "comes"):
            print("here", flush=True)
            if task == "comes":
                sys.stdin.readline()
            status, _ = self.exchange([b"x"] * self.group.size, [1] * self.group.size, 2000)
            print(status, self.words.value.decode(), flush=True)
            return
        for lengths in ((0,), (1,), (1000,), (1024,), (70000,), (8, 0, 9), (300, 300, 400), (70000, 8, 70000), (70000, 70000)):
            self.trade(*lengths)
        if task == "stops":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif task == "goes on":
            status, _ = self.exchange([b"x"] * self.group.size, [1] * self.group.size)
            print(status, self.words.value.decode(), flush=True)
            self.reform()
            self.trade(3000)
            print(f"worker {self.group.rank} of {self.group.size}", flush=True)
        else:  # gives what nobody expects
            length = 5000 if self.group.rank == 0 else 6000
            status, _ = self.exchange([b"x" * length] * self.group.size, [length] * self.group.size)
            print(status, self.words.value.decode(), flush=True)


SECRET = "of the test"


def with_sanitizer(path):
    with open(path, "rb") as file:
        return re.search(rb"__[at]san_init", file.read()) is not None


def start_worker(test, rank, size, port, task, secret):
    """By libgraft_gloo alone, without graft."""
    process = subprocess.Popen([sys.executable, "-B", os.path.abspath(__file__), "--worker", library(), str(rank), str(size), str(port), task,
                                secret], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for after in (process.stdin.close, process.stdout.close, process.wait, process.kill):
        test.addCleanup(after)
    return process


class Gloo(unittest.TestCase):
    def start(self, tasks):
        if library() is None:
            self.skipTest("libgraft_gloo is not built")
        if with_sanitizer(library()):
            self.skipTest("Python does not load a library with a sanitizer")
        port = free_port()
        return [start_worker(self, rank, len(tasks), port, task, SECRET) for rank, task in enumerate(tasks)]

    def test_time_in_which_all_were_stopped_is_no_deadline(self):
        """As on a machine that was suspended: for longer than the exchange may take, and than anybody may be silent."""
        run = self.start(("waits", "comes"))
        for process in run:
            self.assertEqual(process.stdout.readline(), "here\n")
        time.sleep(0.3)
        for process in run:
            process.send_signal(signal.SIGSTOP)
        time.sleep(3)
        for process in run:
            process.send_signal(signal.SIGCONT)
        time.sleep(0.5)
        run[1].stdin.write("\n")
        run[1].stdin.flush()
        for process in run:
            self.assertEqual(process.stdout.readline().strip(), "0")
        # And one that does not come is not waited for any longer.
        run = self.start(("waits", "comes"))
        begun = time.monotonic()
        said = run[0].stdout.readline() + run[0].stdout.readline()
        self.assertIn("did not come to an exchange in time", said)
        self.assertLess(time.monotonic() - begun, 30)

    def test_whoever_stands_still_is_named_without_a_deadline(self):
        run = self.start(("goes on", "stops", "goes on"))
        for rank, process in ((0, run[0]), (1, run[2])):
            self.assertEqual(process.communicate(timeout=cli.TIMEOUT)[0].splitlines(), [
                f"{STATUS['TIMEOUT']} Worker 1 has said nothing for 1.0 s: it stands still, or is cut off.", f"worker {rank} of 2"])
            self.assertEqual(process.returncode, 0)

    def test_sizes_that_differ_are_an_error_of_all(self):
        for process in self.start(("differs", "differs")):
            said = process.communicate(timeout=cli.TIMEOUT)[0]
            self.assertRegex(said, f"^{STATUS['INVALID_ARGUMENT']} Worker [01] gives worker [01] [56]000 bytes; it waits for")
            self.assertEqual(process.returncode, 0)


def statuses():
    """By name, of graft.h."""
    header = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../runtime/include/graft/graft.h")
    with open(header, encoding="utf-8") as file:
        return {name: int(number) for name, number in re.findall(r"GRAFT_(\w+) = (\d+)", file.read())}


STATUS = statuses()

if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1] == "--worker":
        Worker(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), sys.argv[7]).work(sys.argv[6])
    else:
        cli.main()

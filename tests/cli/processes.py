"""Workers of `graft train` that are processes, for tests."""

import json
import os
import socket
import subprocess
import time

import cli
from cli import CliTest

WHERE = ("MASTER_ADDR", "MASTER_PORT")
WHO = ("GRAFT_RANK", "GRAFT_WORLD_SIZE", "GRAFT_SECRET", "RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
       "SLURM_PROCID", "SLURM_STEPID", "TF_CONFIG", "SM_HOSTS", *WHERE, *(f"GRAFT_{name}" for name in WHERE))


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def listening_ports(pid):
    """Of TCP over IPv4, by the process."""
    sockets = set()
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            sockets.add(os.readlink(f"/proc/{pid}/fd/{name}"))
        except FileNotFoundError:  # it has been closed since
            pass
    with open("/proc/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    return [int(row[1].split(":")[1], 16) for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets]


def library():
    """libgraft_gloo; None where it is not built."""
    path = os.path.join(os.path.dirname(cli.GRAFT), "../../platform/gloo/libgraft_gloo.so.0.1")
    return os.path.abspath(path) if os.path.exists(path) else None


class ProcessTest(CliTest):
    FLAGS = ("train", "lenet.graft", "--data", "npy:x.npy,y.npy", "--batch", 4, "--accumulate", 3, "--seed", 3, "--quiet",
             "--worker-timeout", 2)

    def setUp(self):
        super().setUp()
        if library() is None:
            self.skipTest("libgraft_gloo is not built")
        self.graft("convert", "--example", "lenet", "-o", "lenet.onnx")
        self.graft("convert", "lenet.onnx", "-o", "lenet.graft")
        self.images(64)
        self.labels([i % 10 for i in range(64)])
        self.clean = {name: value for name, value in os.environ.items() if name not in WHO}
        # Where dlopen is a sanitizer's, it does not look where the program says.
        self.clean["LD_LIBRARY_PATH"] = os.path.join(os.path.dirname(cli.GRAFT), "../../platform/gloo")
        self.port = free_port()

    def start(self, rank, *flags, size=3, secret="a secret of the test", **variables):
        environment = {**self.clean, "GRAFT_RANK": str(rank), "GRAFT_WORLD_SIZE": str(size), "GRAFT_SECRET": secret,
                       "GRAFT_MASTER_ADDR": "127.0.0.1", "GRAFT_MASTER_PORT": str(self.port), **variables}
        process = subprocess.Popen([cli.GRAFT, *map(str, self.FLAGS), *map(str, flags)], cwd=self.folder,
                                   env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    @staticmethod
    def said(process):
        out, errors = process.communicate(timeout=cli.TIMEOUT)
        return process.returncode, out + errors

    def until_a_step(self):
        deadline = time.monotonic() + cli.TIMEOUT
        while time.monotonic() < deadline:
            if os.path.exists(self.path("metrics.jsonl")) and os.path.getsize(self.path("metrics.jsonl")) > 0:
                return
            time.sleep(0.01)
        self.fail("no step was taken")

    def rows(self, kind="step"):
        """Of the metrics file, as far as it is whole."""
        try:
            with open(self.path("metrics.jsonl"), encoding="utf-8") as file:
                lines = file.read().split("\n")[:-1]
        except FileNotFoundError:
            return []
        return [row for row in map(json.loads, lines) if row["kind"] == kind]

    def reads(self, process, words):
        """What it says up to these words."""
        lines = []
        while not lines or words not in lines[-1]:
            lines.append(process.stderr.readline())
            self.assertTrue(lines[-1], "".join(lines))

    def until(self, what, condition):
        deadline = time.monotonic() + cli.TIMEOUT
        while time.monotonic() < deadline:
            if condition():
                return
            time.sleep(0.01)
        self.fail(f"{what} did not come to pass")

    def same_as_one(self, name, steps):
        """What one worker writes after as many steps."""
        self.graft(*self.FLAGS, "--steps", steps, "-o", "one.graft")
        with open(self.path("one.graft"), "rb") as a, open(self.path(name), "rb") as b:
            self.assertEqual(a.read(), b.read())

"""What the tests of the command line share. Standard library only: they run wherever a Python is.

Usage of each test: NAME_test.py GRAFT [-v] [TEST ...]     (GRAFT: the command line tool)
"""

import array
import ast
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import unittest

GRAFT = ""
TIMEOUT = 120  # seconds; a command takes about one
NO_DEVICE = 77
SEEDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../fuzz/corpus")


def save_npy(path, values, shape, kind="f"):
    """`kind` is a typecode of array: f (float32), i (int32), q (int64) or B (uint8)."""
    dtype = {"f": "<f4", "i": "<i4", "q": "<i8", "B": "|u1"}[kind]
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }" % (dtype, "".join(f"{n}, " for n in shape))
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        out.write(array.array(kind, values).tobytes())


def load_npy(path, shape=None):
    """The elements of a float32 file, whose shape must be the given one."""
    with open(path, "rb") as file:
        data = file.read()
    start = 10 + struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:start].decode())
    assert header["descr"] == "<f4", header
    assert shape is None or header["shape"] == tuple(shape), f"{path} has the shape {header['shape']} instead of {shape}"
    return array.array("f", data[start:]).tolist()


def npy_shape(path):
    with open(path, "rb") as file:
        size = struct.unpack("<H", file.read(10)[8:])[0]
        return ast.literal_eval(file.read(size).decode())["shape"]


def random_floats(count, seed):
    """Centred and reproducible, from a linear congruence: no two Python versions differ in them."""
    values = []
    for _ in range(count):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        values.append((seed >> 40) / 2**23 - 1)
    return values


def norm(values):
    return sum(v * v for v in values) ** 0.5


def difference(a, b):
    """Norm of the difference over the norm of b."""
    return norm([x - y for x, y in zip(a, b, strict=True)]) / norm(b)


class CliTest(unittest.TestCase):
    """A folder of its own per test, with mlp.graft in it: image [batch, 1, 28, 28] to logits [batch, 10]."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="graft_cli_")
        self.addCleanup(shutil.rmtree, self.folder, True)
        shutil.copy(self.example(), self.path("mlp.graft"))

    _example = None

    @classmethod
    def example(cls):
        if CliTest._example is None:
            folder = tempfile.mkdtemp(prefix="graft_cli_")
            unittest.addModuleCleanup(shutil.rmtree, folder, True)
            command = [GRAFT, "convert", "--example", "mlp", "-o", f"{folder}/mlp.onnx"]
            subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT)
            command = [GRAFT, "convert", f"{folder}/mlp.onnx", "-o", f"{folder}/mlp.graft"]
            subprocess.run(command, check=True, capture_output=True, timeout=TIMEOUT)
            CliTest._example = f"{folder}/mlp.graft"
        return CliTest._example

    def path(self, name):
        return os.path.join(self.folder, name)

    def run_graft(self, *arguments, **options):
        return subprocess.run([GRAFT, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT,
                              cwd=self.folder, **options)

    def graft(self, *arguments):
        """Expects success; returns stdout."""
        done = self.run_graft(*arguments)
        self.assertEqual(done.returncode, 0, f"graft {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
        return done.stdout

    def fails(self, *arguments, says=(), **options):
        """Expects exit status 1 and one sentence on stderr that holds every text of `says`."""
        done = self.run_graft(*arguments, **options)
        what = f"graft {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}"
        self.assertEqual(done.returncode, 1, what)
        lines = done.stderr.strip().splitlines()
        sentences = [line for line in lines if line.startswith("graft: ")]
        self.assertEqual(len(sentences), 1, what)
        self.assertEqual(lines[-1], sentences[0], what)
        self.assertTrue(sentences[0].endswith("."), what)
        for text in says:
            self.assertIn(text, sentences[0])
        return sentences[0]

    def refused(self, *arguments, names):
        """Expects exit status 2, as for a command line that makes no sense, and a first line on stderr that holds `names`."""
        done = self.run_graft(*arguments)
        self.assertEqual(done.returncode, 2, f"graft {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}")
        self.assertEqual(done.stdout, "")
        self.assertIn(names, done.stderr.splitlines()[0])
        return done.stderr

    def images(self, count, seed=1, name="x.npy"):
        values = random_floats(count * 784, seed)
        save_npy(self.path(name), values, (count, 1, 28, 28))
        return values

    def labels(self, values, name="y.npy"):
        save_npy(self.path(name), values, (len(values),), "q")

    def outputs(self, model, images="x.npy", flags=()):
        self.graft("run", model, "--input", f"image={images}", "--out", "out", *flags)
        return load_npy(self.path("out/logits.npy"), (*npy_shape(self.path(images))[:1], 10))

    def metrics(self, kind="step"):
        with open(self.path("metrics.jsonl")) as lines:
            return [row for row in map(json.loads, lines) if row["kind"] == kind]


class LanguageTest(CliTest):
    """With tiny.graft, a language model of 6 tokens from the fuzzers' seeds."""

    def setUp(self):
        super().setUp()
        shutil.copy(f"{SEEDS}/gguf/llama", self.path("tiny.gguf"))
        self.graft("convert", "tiny.gguf", "-o", "tiny.graft")

    def generated(self, *flags):
        return json.loads(self.graft("generate", "tiny.graft", "--json", *flags))


def main():
    """Runs the tests of the calling file; exit status 77 where there is no Vulkan device."""
    global GRAFT
    GRAFT = os.path.abspath(sys.argv.pop(1))
    # Not the user's pipeline cache; but Mesa's, or each test would have the software driver compile every kernel again.
    os.environ.setdefault("MESA_SHADER_CACHE_DIR", os.path.expanduser("~/.cache"))
    cache = tempfile.TemporaryDirectory(prefix="graft_cache_")
    os.environ["XDG_CACHE_HOME"] = cache.name
    # What nohup or a shell's & has started ignores these, and so would its commands.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    if subprocess.run([GRAFT, "devices"], capture_output=True, timeout=TIMEOUT).returncode != 0:
        print("skipped: there is no Vulkan device")
        sys.exit(NO_DEVICE)
    program = unittest.main(exit=False)
    cache.cleanup()
    sys.exit(0 if program.result.wasSuccessful() else 1)

"""What the tests of the Python package share.

Usage of each test: NAME_test.py PACKAGE GRAFT [-v] [TEST ...]
PACKAGE: the folder that holds graft/; GRAFT: the command line tool, which writes example networks.
Exit status: 77 where numpy, PyTorch or a Vulkan device is absent.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


sys.path.insert(0, os.path.abspath(sys.argv.pop(1)))
GRAFT = os.path.abspath(sys.argv.pop(1))
SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
try:
    import numpy as np
except ImportError as missing:
    skip(missing)

import graft

# f32 on both sides, other orders of summation: room for some hundred roundings in a row, as in tests/torch/parity.py.
FORWARD_TOLERANCE = 1e-4
GRADIENT_TOLERANCE = 1e-3


def torch():
    """The module, on one thread: two cores are shared with the device's."""
    try:
        import torch
    except ImportError as missing:
        skip(missing)
    torch.set_num_threads(1)
    return torch


def error(actual, expected):
    """Norm of the difference over the norm of what is expected."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{actual.shape} instead of {expected.shape}"
    return float(np.linalg.norm(actual - expected) / max(np.linalg.norm(expected), 1e-12))


CONTEXT = None


class PackageTest(unittest.TestCase):
    """A folder of its own per test, and one context for all: GRAFT_TEST_DEVICE names its device."""

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="graft_python_")
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.context = CONTEXT

    def path(self, name):
        return os.path.join(self.folder, name)

    def example(self, name="mlp"):
        """An untrained network: image [batch, 1, 28, 28] to logits [batch, 10]."""
        subprocess.run([GRAFT, "convert", "--example", name, "-o", self.path(f"{name}.onnx")], check=True,
                       capture_output=True)
        graft.convert(self.path(f"{name}.onnx"), output=self.path(f"{name}.graft"))
        return self.context.load(self.path(f"{name}.graft"))

    def language_model(self):
        """One of six tokens, from the fuzzers' seeds."""
        shutil.copy(f"{SOURCE}/tests/fuzz/corpus/gguf/llama", self.path("tiny.gguf"))
        graft.convert(self.path("tiny.gguf"), output=self.path("tiny.graft"))
        return self.context.load(self.path("tiny.graft"))

    def converted(self, module, inputs, name="m.graft", **options):
        """A module of PyTorch as a model of this test's context."""
        graft.convert(module, inputs, self.path(name), **options)
        return self.context.load(self.path(name))


def main():
    global CONTEXT
    try:
        CONTEXT = graft.Context(os.environ.get("GRAFT_TEST_DEVICE"))
    except graft.NotFound as absent:
        skip(absent)
    unittest.main()

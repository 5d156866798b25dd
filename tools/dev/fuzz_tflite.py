"""Differential fuzzing of the TFLite importer against TensorFlow Lite's own interpreter, through the command line.

    fuzz_tflite.py GRAFT [--minutes M] [--seed S] [--count N] [--op NAME] [--save DIR]

Each seed makes a file of 1 to 4 operators with random options, of floats and integers, or of one with quantized values and up to
2 after it. Some files add what they compute to a variable, and run twice.
The interpreter says whether each operator is valid and what it gives. graft converts the file and runs it; a quantized file is
also run with --fake-quantize, and only so beyond its first operator. graft export is not tried.
A difference is a wrong value, shape or type, or a crash; what graft refuses with a sentence is counted. --op takes only files
with that operator. Needs numpy and npm's @tensorflow/tfjs-tflite (TFJS_TFLITE names its folder; tests/torch/tflite_runtime.py
installs it). Exit status: 0 no difference, 1 some, 77 something is not installed.
"""

import argparse
import collections
import glob
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../tests/torch"))
try:
    import numpy as np

    import tflite_runtime
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

FORWARD = 2e-4  # of the largest number: f32 sums in another order
TIMEOUT = 600
NUMBERS = {"float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "int8": 9}
RESOURCE = 13
RANGES = {"int8": (-128, 127), "uint8": (0, 255), "int16": (-32768, 32767)}


def read_codes():
    with open(os.path.join(HERE, "../../schema/tflite.fbs"), encoding="utf-8") as file:
        body = re.search(r"enum BuiltinOperator : int \{(.*?)\}", file.read(), re.S).group(1)
    return {name: int(number) for name, number in re.findall(r"(\w+) = (\d+)", body)}


CODES = read_codes()


# --- FlatBuffers: a table is a list of its fields, each None or (kind, value).

WIDTHS = {"b": 1, "B": 1, "i": 4, "I": 4, "f": 4, "q": 8, "at": 4}


class Writer:
    def __init__(self):
        self.out = bytearray(b"\0\0\0\0TFL3")

    def align(self, to, extra=0):
        while (len(self.out) + extra) % to:
            self.out.append(0)

    def lead(self, place, target):
        struct.pack_into("<I", self.out, place, target - place)

    def table(self, fields):
        offsets, size = [], 4
        for field in fields:
            if field is None:
                offsets.append(0)
                continue
            width = WIDTHS[field[0]]
            size += -size % width
            offsets.append(size)
            size += width
        layout = struct.pack(f"<HH{len(offsets)}H", 4 + 2 * len(offsets), size, *offsets)
        self.align(8, len(layout))
        self.out += layout
        start = len(self.out)
        self.out += struct.pack("<i", len(layout)) + bytes(size - 4)
        for field, offset in zip(fields, offsets):
            if field is not None and field[0] != "at":
                struct.pack_into("<" + field[0], self.out, start + offset, field[1])
        for field, offset in zip(fields, offsets):
            if field is not None and field[0] == "at":
                self.lead(start + offset, self.place(field[1]))
        return start

    def place(self, value):
        if isinstance(value, list):
            return self.table(value)
        if isinstance(value, str):
            self.align(4)
            start = len(self.out)
            self.out += struct.pack("<I", len(value)) + value.encode() + b"\0"
            return start
        if isinstance(value, tuple):  # tables
            self.align(4)
            start = len(self.out)
            self.out += struct.pack("<I", len(value)) + bytes(4 * len(value))
            for i, each in enumerate(value):
                self.lead(start + 4 + 4 * i, self.table(each))
            return start
        self.align(16, 4)  # numbers
        start = len(self.out)
        self.out += struct.pack("<I", len(value)) + value.tobytes()
        return start

    def file(self, root):
        self.align(8)
        start = self.table(root)
        struct.pack_into("<I", self.out, 0, start)
        return bytes(self.out)


def ints(values):
    return ("at", np.array(values, np.int32))


class Quantization:
    def __init__(self, scale, zero, axis=0):
        self.scale, self.zero, self.axis = np.atleast_1d(np.float32(scale)), np.atleast_1d(np.int64(zero)), axis

    def table(self):
        return [None, None, ("at", self.scale), ("at", self.zero), None, None, ("i", self.axis)]

    def real(self, array):
        shape = [-1 if i == self.axis else 1 for i in range(array.ndim)] if len(self.scale) > 1 else [1] * array.ndim
        return (array.astype(np.float64) - self.zero.reshape(shape)) * self.scale.astype(np.float64).reshape(shape)

    def steps(self, array, dtype):
        shape = [-1 if i == self.axis else 1 for i in range(array.ndim)] if len(self.scale) > 1 else [1] * array.ndim
        low, high = RANGES.get(dtype, (-2**31, 2**31 - 1))
        steps = np.rint(array.astype(np.float64) / self.scale.astype(np.float64).reshape(shape)) + self.zero.reshape(shape)
        return np.clip(steps, low, high).astype(dtype)


class Op:
    """options: the number of the union's member and its fields; kinds: types of the outputs, that of the first input else."""

    def __init__(self, code, inputs, options=None, count=1, kinds=None, shape=None):
        self.code, self.inputs, self.options, self.count, self.kinds, self.shape = code, inputs, options, count, kinds, shape
        self.outputs = []

    def text(self, g):
        shapes = ", ".join("-" if n is None else f"{n}:{g.values[n].dtype}{list(g.values[n].shape)}"
                           + (f"={g.values[n].tolist()}" if n in g.constants and g.values[n].size <= 8 else "") for n in self.inputs)
        return f"{self.code}({shapes}) {self.options or ''} -> {', '.join(f'{n}:{list(g.values[n].shape)}' for n in self.outputs)}"


class Net:
    """What a file holds: values by name, of which some are given."""

    def __init__(self):
        self.values, self.constants, self.quantization, self.ops = {}, set(), {}, []
        self.variables = {}  # name of a RESOURCE tensor: the variable's

    def file(self, ops, inputs, outputs, initial=None):
        names = list(dict.fromkeys([*inputs, *[n for op in ops for n in [*op.inputs, *op.outputs] if n is not None], *outputs]))
        buffers, codes = [[]], []
        graphs = [self.graph(names, ops, inputs, outputs, buffers, codes)]
        if initial:
            graphs.append(self.graph(*initial, [], [], buffers, codes))
        root = [("I", 3), ("at", tuple([("b", min(CODES[c], 127)), None, ("i", 1), ("i", CODES[c])] for c in codes)),
                ("at", tuple(graphs)), ("at", "fuzz"), ("at", tuple(buffers))]
        return Writer().file(root)

    def graph(self, names, ops, inputs, outputs, buffers, codes):
        tensors = []
        for name in names:
            if name in self.variables:
                tensors.append([ints([]), ("b", RESOURCE), ("I", 0), ("at", name)])
                continue
            value, buffer = self.values[name], 0
            if name in self.constants:
                buffer = len(buffers)
                buffers.append([("at", np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8))])
            q = self.quantization.get(name)
            tensors.append([ints(value.shape), ("b", NUMBERS[value.dtype.name]), ("I", buffer), ("at", name),
                            ("at", q.table()) if q else None])
        operators = []
        for op in ops:
            if op.code not in codes:
                codes.append(op.code)
            entry = [("I", codes.index(op.code)), ints([-1 if n is None else names.index(n) for n in op.inputs]),
                     ints([names.index(n) for n in op.outputs])]
            if op.options:
                entry += [("B", op.options[0]), ("at", list(op.options[1]))]
            operators.append(entry)
        return [("at", tuple(tensors)), ints([names.index(n) for n in inputs]), ints([names.index(n) for n in outputs]),
                ("at", tuple(operators)), ("at", "main")]


# --- random operators

def act(g, chance=0.4):
    return ("b", g.pick(1, 2, 3)) if g.maybe(chance) else ("b", 0)


class Generator(Net):
    def __init__(self, runtime, seed, folder, quantized=None):
        super().__init__()
        self.rng = np.random.default_rng(seed)
        self.runtime, self.folder, self.quantized = runtime, folder, quantized
        self.refused = collections.Counter()

    def pick(self, *of):
        return of[self.rng.integers(len(of))]

    def maybe(self, chance=0.5):
        return bool(self.rng.random() < chance)

    def shape(self, low=1, high=4):
        return tuple(int(self.rng.choice((1, 2, 3, 4, 5))) for _ in range(self.rng.integers(low, high + 1)))

    def array(self, shape, kind="f"):
        if kind == "f":
            return self.rng.normal(size=shape).astype(np.float32) * np.float32(self.pick(1, 1, 4))
        if kind == "b":
            return np.asarray(self.rng.random(shape) < 0.5)
        return np.asarray(self.rng.integers(-5, 6, shape)).astype({"q": np.int64, "i": np.int32}[kind])

    def constant(self, array):
        name = f"c{len(self.values)}"
        self.values[name] = np.asarray(array)
        self.constants.add(name)
        return name

    def ints(self, *values):
        return self.constant(np.array(values, np.int32))

    def number(self, value):
        return self.constant(np.array(value, np.int32))

    def fresh(self, shape, kind="f", constant=0.3):
        """An input or, less often, a constant; a constant of floats may be one of halves behind DEQUANTIZE."""
        array = self.array(shape, kind)
        if self.maybe(constant):
            if kind == "f" and self.maybe(0.15) and self.quantized is None:
                half = self.constant(array.astype(np.float16))
                name = f"h{len(self.values)}"
                self.values[name] = self.values[half].astype(np.float32)
                op = Op("DEQUANTIZE", [half])
                op.outputs = [name]
                self.ops.append(op)
                return name
            return self.constant(array)
        name = f"x{len(self.values)}"
        self.values[name] = array
        return name

    def of(self, kind="f", low=1, high=4):
        types = {"f": ("float32",), "i": ("int32",), "q": ("int64",), "b": ("bool",), "n": ("float32", "int32", "int64")}[kind]
        made = [n for n, v in self.values.items() if n not in self.constants and n not in self.quantization
                and v.dtype.name in types and low <= v.ndim <= high and 0 < v.size <= 1000]
        if made and self.maybe(0.7):
            return made[self.rng.integers(len(made))]
        return self.fresh(self.shape(low, high), self.pick("f", "f", "i", "q") if kind == "n" else kind, 0)

    def images(self, low=1):
        made = [n for n, v in self.values.items() if n not in self.constants and v.dtype == np.float32 and v.ndim == 4
                and v.size and min(v.shape) >= low]
        if made and self.maybe(0.6):
            return self.pick(*made)
        return self.fresh((self.pick(1, 1, 2), int(self.rng.integers(2, 8)), int(self.rng.integers(2, 8)), self.pick(1, 2, 3, 4, 6)), "f", 0)

    def like(self, name):
        """Something that broadcasts with it."""
        value = self.values[name]
        shape = [1 if self.maybe(0.25) else s for s in value.shape]
        if self.maybe(0.3):
            shape = shape[int(self.rng.integers(0, len(shape) + 1)):]
        return self.fresh(tuple(shape), self.kind(name))

    def kind(self, name):
        return {"float32": "f", "int32": "i", "int64": "q", "bool": "b"}[self.values[name].dtype.name]

    def axis(self, name, extra=0):
        rank = self.values[name].ndim + extra
        return int(self.rng.integers(-rank, rank)) if rank else 0

    def reads(self, ops):
        made = {n for op in ops for n in op.outputs}
        return [n for n in dict.fromkeys(n for op in ops for n in op.inputs if n is not None) if n not in made and n not in self.constants]

    def ask(self, ops, outputs):
        """What TensorFlow Lite makes of these operators. What its browser interface cannot pass is cast on both sides."""
        path = f"{self.folder}/ask.tflite"
        net = Net()
        net.values, net.constants, net.quantization = dict(self.values), self.constants, self.quantization
        narrow = {"int64": np.int32, "float16": np.float32}
        feeds, first, last, asked = {}, [], [], []
        for ends, names in ((first, self.reads(ops)), (last, outputs)):
            for name in names:
                other, dtype = name, self.values[name].dtype.name
                if dtype in narrow:
                    other = f"narrow_{name}"
                    net.values[other] = self.values[name].astype(narrow[dtype])
                    pair = (other, name) if ends is first else (name, other)
                    op = Op("CAST", [pair[0]], (37, [("b", NUMBERS[net.values[n].dtype.name]) for n in pair]))
                    op.outputs = [pair[1]]
                    ends.append(op)
                if ends is first:
                    feeds[other] = net.values[other]
                else:
                    asked.append(other)
        with open(path, "wb") as file:
            file.write(net.file([*first, *ops, *last], list(feeds), asked))
        results = self.runtime.run(path, [feeds])[0]
        return {n: results[a].astype(self.values[n].dtype) for n, a in zip(outputs, asked)}

    def ask_twice(self, ops, op):
        """The interpreter trusts some shapes that the file declares: it is asked again with those that it gave."""
        if op.shape is not None:
            self.values[op.outputs[0]] = np.zeros(op.shape, self.values[op.outputs[0]].dtype)
        results = self.ask(ops, op.outputs)
        for name, value in results.items():
            other = value if value.shape != (1,) or op.shape is not None else np.zeros((1, 1), value.dtype)
            self.values[name] = other
        again = self.ask(ops, op.outputs)
        return again if all(again[n].shape == v.shape for n, v in results.items()) else None

    def add(self, make):
        """True where TensorFlow Lite takes the operator and gives numbers that are not large."""
        before = set(self.values), list(self.ops)
        try:
            op = make(self)
            if op is None or not self.take(op):
                raise ValueError
            return True
        except (ValueError, IndexError, KeyError, ZeroDivisionError, tflite_runtime.Refused) as problem:
            if isinstance(problem, tflite_runtime.Refused):
                self.refused[f"{make.__name__} {op.code}: {problem}"[:200]] += 1
            for name in set(self.values) - before[0]:
                del self.values[name]
                self.constants.discard(name)
                self.quantization.pop(name, None)
            self.ops = before[1]
            return False

    def name_outputs(self, op, grid=None):
        op.outputs = [f"v{len(self.values)}_{k}" for k in range(op.count)]
        first = next(self.values[n].dtype for n in op.inputs if n is not None)
        kinds = op.kinds or [first.name] * op.count
        for name, kind in zip(op.outputs, kinds):
            self.values[name] = np.zeros((1,), kind)
            if grid is not None:
                self.quantization[name] = grid

    def take(self, op):
        halves = [o for o in self.ops if o.code == "DEQUANTIZE" and o.outputs[0] in op.inputs]
        self.name_outputs(op)
        results = self.ask_twice([*halves, op], op)
        if results is None or not self.small(results):
            return False
        if self.quantized is not None and all(self.values[n].dtype == np.float32 for n in op.outputs):
            return self.take_quantized(op, results)
        self.values.update(results)
        self.ops.append(op)
        return True

    @staticmethod
    def small(results):
        for value in results.values():
            if value.size > 2000 or (value.dtype.kind == "f" and np.isfinite(value).any() and np.abs(value[np.isfinite(value)]).max() > 1e4):
                return False
        return True

    def grid_of(self, values, dtype, symmetric=False):
        low, high = RANGES[dtype]
        least, most = min(float(values.min(initial=0)), 0), max(float(values.max(initial=0)), 0)
        if dtype == "int16" or symmetric:
            return Quantization(max(-least, most, 1e-3) / high, 0)
        scale = np.float32(max(most - least, 1e-3) / (high - low))
        return Quantization(scale, int(np.clip(np.rint(low - least / scale), low, high)))

    def take_quantized(self, op, results):
        """The same operator of integers: inputs get grids, and outputs those that their floats need."""
        dtype, layers = self.quantized, {"CONV_2D": (0, 1, 2, 0), "DEPTHWISE_CONV_2D": (0, 1, 2, 3), "FULLY_CONNECTED": (0, 1, 2, None),
                                         "TRANSPOSE_CONV": (2, 1, 3, 0)}
        x, w, b, axis = layers.get(op.code, (None, None, None, None))
        weights = {op.inputs[i]: i for i in (w, b) if i is not None and i < len(op.inputs)}
        shared = op.code in ("CONCATENATION", "PACK", "MAXIMUM", "MINIMUM", "SELECT", "SELECT_V2", "PADV2")
        grids = {}
        if shared:
            floats = [self.values[n].ravel() for n in op.inputs if n is not None and self.values[n].dtype == np.float32]
            one = self.grid_of(np.concatenate(floats), dtype)
        for name in op.inputs:
            if name is None or name in weights or self.values[name].dtype != np.float32:
                continue
            grids[name] = one if shared else self.grid_of(self.values[name], dtype)
        if w is not None:
            array = self.values[op.inputs[w]]
            kind = "uint8" if dtype == "uint8" else "int8"
            if kind == "uint8":
                grids[op.inputs[w]] = self.grid_of(array, kind)
            elif axis is not None and self.maybe(0.7):
                other = tuple(i for i in range(array.ndim) if i != axis)
                grids[op.inputs[w]] = Quantization(np.maximum(np.abs(array).max(axis=other), 1e-3) / 127, np.zeros(array.shape[axis], np.int64), axis)
            else:
                grids[op.inputs[w]] = self.grid_of(array, kind, symmetric=True)
            if len(op.inputs) > b and op.inputs[b] is not None:
                scale = grids[op.inputs[x]].scale[0] * grids[op.inputs[w]].scale
                grids[op.inputs[b]] = Quantization(scale, np.zeros(len(scale), np.int64))
        renamed, single = {}, f"{len(self.values)}"
        for name, grid in grids.items():
            kind = ("int64" if dtype == "int16" else "int32") if name in weights and weights[name] == b else \
                ("uint8" if dtype == "uint8" else "int8") if name in weights else dtype
            new = renamed[name] = f"q{single}_{name}"
            self.values[new], self.quantization[new] = grid.steps(self.values[name], kind), grid
            if name in self.constants:
                self.constants.add(new)
        fixed = {"LOGISTIC": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)},
                 "SOFTMAX": {"int8": (1 / 256, -128), "uint8": (1 / 256, 0), "int16": (1 / 32768, 0)},
                 "TANH": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128), "int16": (1 / 32768, 0)},
                 "L2_NORMALIZATION": {"int8": (1 / 128, 0), "uint8": (1 / 128, 128)},
                 "LOG_SOFTMAX": {"int8": (16 / 256, 127), "uint8": (16 / 256, 255)}}
        same = ("MAX_POOL_2D", "AVERAGE_POOL_2D", "RESHAPE", "TRANSPOSE", "SLICE", "STRIDED_SLICE", "PAD", "PADV2", "MIRROR_PAD", "SPLIT",
                "SPLIT_V", "SQUEEZE", "EXPAND_DIMS", "UNPACK", "PACK", "GATHER", "GATHER_ND", "CONCATENATION", "MAXIMUM", "MINIMUM",
                "SPACE_TO_DEPTH", "DEPTH_TO_SPACE", "TILE", "REVERSE_V2", "RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR", "REDUCE_MAX",
                "REDUCE_MIN", "BROADCAST_TO", "SELECT", "SELECT_V2", "TOPK_V2", "EMBEDDING_LOOKUP", "FILL", "ZEROS_LIKE", "RELU_0_TO_1")
        first = next(iter(g for n, g in grids.items() if n not in weights), None)
        if first is None:
            return False
        if op.code in fixed:
            grid = Quantization(*fixed[op.code][dtype])
        elif op.code in same:
            grid = first
        else:
            finite = np.concatenate([v.ravel() for v in results.values()])
            if not np.isfinite(finite).all():
                return False
            grid = self.grid_of(finite * np.float32(self.pick(1, 1, 1, 0.5)), dtype)
        made = Op(op.code, [renamed.get(n, n) for n in op.inputs], op.options, op.count, [dtype] * op.count, op.shape)
        self.name_outputs(made, grid)
        results = self.ask_twice([made], made)
        if results is None:
            return False
        self.values.update(results)
        self.ops.append(made)
        return True


def add_quantized(g):
    """Another operator after a quantized one, of those that make no difference larger."""
    source = g.ops[-1].outputs[0]
    value, grid = g.values[source], g.quantization.get(source)
    if grid is None:
        return
    kind = value.dtype.name
    op, out = g.pick(*QUANTIZED_AFTER)(g, source), grid
    if op is None:
        return
    if op.code == "QUANTIZE":
        kind = g.pick(kind, "int8", "uint8") if kind != "int16" else g.pick("int16", "int8")
        out = Quantization(grid.scale * np.float32(g.rng.uniform(0.5, 2)), 0 if kind == "int16" else int(g.rng.integers(RANGES[kind][0] + 40, RANGES[kind][1] - 40)))
    elif op.code in ("RELU", "RELU6", "ADD"):
        out = g.grid_of(grid.real(value) * g.pick(1, 2), kind)
    elif op.code == "DEQUANTIZE":
        kind, out = "float32", None
    op.kinds = [kind] * op.count
    try:
        g.name_outputs(op, out)
        results = g.ask_twice([op], op)
    except tflite_runtime.Refused:
        results = None
    if results is None:
        for name in op.outputs:
            g.values.pop(name, None)
            g.quantization.pop(name, None)
        return
    g.values.update(results)
    g.ops.append(op)


def pooled(code):
    return lambda g, x: Op(code, [x], (5, [("b", 1), ("i", 1), ("i", 1), ("i", 2), ("i", 1), ("b", 0)])) if g.values[x].ndim == 4 else None


QUANTIZED_AFTER = [
    lambda g, x: Op("QUANTIZE", [x]), lambda g, x: Op("QUANTIZE", [x]), lambda g, x: Op("DEQUANTIZE", [x]), lambda g, x: Op("RELU", [x]),
    lambda g, x: Op("RELU6", [x]), lambda g, x: Op("ADD", [x, x], (11, [("b", 0)])), pooled("MAX_POOL_2D"), pooled("AVERAGE_POOL_2D"),
    lambda g, x: Op("RESHAPE", [x, g.ints(-1)]), lambda g, x: Op("TRANSPOSE", [x, g.ints(*reversed(range(g.values[x].ndim)))]),
    lambda g, x: Op("CONCATENATION", [x, x], (10, [("i", 0), ("b", 0)])),
]


def add_variable(g):
    """Operators that add a result to a variable, which a graph that runs once sets. False: there is no result to add."""
    made = [n for op in g.ops for n in op.outputs if g.values[n].dtype == np.float32 and g.values[n].size and np.isfinite(g.values[n]).all()
            and not is_half(g, op)]
    if not made or g.quantization or getattr(g, "states", None) or any(g.values[n].dtype.name in ("int64", "float16") for n in g.reads(g.ops)):
        return False
    result = g.pick(*made)
    g.start = g.constant(g.array(g.values[result].shape))
    for name in ("old", "sum", "again"):
        g.values[name] = np.zeros_like(g.values[result])
    g.variables.update(first="state", handle="state")

    def op(code, inputs, outputs, options=None):
        one = Op(code, inputs, options)
        one.outputs = outputs
        return one

    handle = lambda name: op("VAR_HANDLE", [], [name], (111, [None, ("at", "state")]))
    g.initial = (["first", g.start], [handle("first"), op("ASSIGN_VARIABLE", ["first", g.start], [])])
    g.stateful = [op("CALL_ONCE", [], [], (103, [("i", 1)])), *g.ops, handle("handle"), op("READ_VARIABLE", ["handle"], ["old"]),
                  op("ADD", ["old", result], ["sum"], (11, [("b", 0)])), op("ASSIGN_VARIABLE", ["handle", "sum"], []),
                  op("READ_VARIABLE", ["handle"], ["again"])]
    return True


def unary(code, options=None, kinds="fffi"):
    def make(g):
        return Op(code, [g.of(g.pick(*kinds), 0 if g.maybe(0.1) else 1)], options(g) if options else None)
    return make


def binary(code, number=None, kinds="ffiq", count=1, out=None):
    def make(g):
        a = g.of(g.pick(*kinds))
        b = g.like(a)
        pair = [a, b] if g.maybe(0.7) else [b, a]
        if number is None:
            return Op(code, pair, kinds=out)
        return Op(code, pair, (number, [act(g)]), kinds=out)
    return make


def reduce(code):
    def make(g):
        x = g.of(g.pick("f", "f", "i", "q"))
        rank = g.values[x].ndim
        axes = [int(a) - rank * g.maybe(0.3) for a in g.rng.choice(rank, g.rng.integers(0 if g.maybe(0.1) else 1, rank + 1), replace=g.maybe(0.1))]
        where = g.number(axes[0]) if len(axes) == 1 and g.maybe(0.3) else g.ints(*axes)
        return Op(code, [x, where], (27, [("b", g.pick(0, 1))]) if g.maybe(0.9) else None)
    return make


def arg(code, number):
    def make(g):
        x = g.of(g.pick("f", "i"))
        wide = g.pick(False, True)
        return Op(code, [x, g.pick(g.number, g.ints)(g.axis(x))], (number, [("b", 4 if wide else 2)]), kinds=["int64" if wide else "int32"])
    return make


def fits(g, x, same, size, stride, dilate=(1, 1)):
    """XNNPACK, in the interpreter, computes zeros if SAME would pad by less than nothing; its kernels of uint8 do not."""
    if not same or g.quantized == "uint8":
        return True
    return all((-(-n // s) - 1) * s + (k - 1) * d + 1 >= n for n, k, s, d in zip(g.values[x].shape[1:3], size, stride, dilate))


def conv(g):
    x = g.images()
    n, h, w, c = g.values[x].shape
    size, out = (g.pick(1, 2, 3), g.pick(1, 2, 3)), g.pick(1, 2, 3, 4)
    groups = g.pick(1, 1, 1, *[d for d in (2, 3) if c % d == 0])
    weight = g.fresh((out * groups, *size, c // groups), "f", 0.9)
    dilate = g.pick(1, 1, 2), g.pick(1, 1, 2)
    stride = (1, 1) if max(dilate) > 1 and g.maybe(0.7) else (g.pick(1, 2, 3), g.pick(1, 2))
    bias, valid = [g.fresh((out * groups,), "f", 0.9)] if g.maybe(0.7) else [], g.pick(0, 1)
    if not fits(g, x, not valid, size, stride, dilate):
        return None
    return Op("CONV_2D", [x, weight, *bias], (1, [("b", valid), ("i", stride[1]), ("i", stride[0]), act(g), ("i", dilate[1]), ("i", dilate[0])]))


def depthwise(g):
    x = g.images()
    n, h, w, c = g.values[x].shape
    size, times = (g.pick(1, 2, 3), g.pick(1, 2, 3)), g.pick(1, 1, 2, 3)
    dilate = g.pick(1, 1, 2), g.pick(1, 1, 2)
    stride = g.pick(1, 2)
    weight, bias = g.fresh((1, *size, c * times), "f", 0.9), [g.fresh((c * times,), "f", 0.9)] if g.maybe(0.7) else []
    stride, valid = (stride, stride if g.maybe(0.8) else g.pick(1, 2)), g.pick(0, 1)
    if not fits(g, x, not valid, size, stride, dilate):
        return None
    return Op("DEPTHWISE_CONV_2D", [x, weight, *bias],
              (2, [("b", valid), ("i", stride[1]), ("i", stride[0]), ("i", times), act(g), ("i", dilate[1]), ("i", dilate[0])]))


def transpose_conv(g):
    x = g.images()
    n, h, w, c = g.values[x].shape
    size, stride, out, same = (g.pick(1, 2, 3), g.pick(1, 2, 3)), (g.pick(1, 2, 3), g.pick(1, 2, 3)), g.pick(1, 2, 3), g.maybe()
    sizes = [(s - 1) * t + (1 if same else k) + int(g.rng.integers(0, t)) for s, t, k in zip((h, w), stride, size)] if g.maybe(0.7) else \
        [s * t if same else (s - 1) * t + k for s, t, k in zip((h, w), stride, size)]
    bias = [g.fresh((out,), "f", 0.9)] if g.maybe() else []  # this interpreter, of 2022, has no fused activation there
    return Op("TRANSPOSE_CONV", [g.ints(n, *sizes, out), g.fresh((out, *size, c), "f", 0.9), x, *bias],
              (49, [("b", 0 if same else 1), ("i", stride[1]), ("i", stride[0]), ("b", 0)]), kinds=["float32"])


def pool(code):
    def make(g):
        x, valid, stride, size = g.images(), g.pick(0, 1), (g.pick(1, 2, 3), g.pick(1, 2, 3)), (g.pick(1, 2, 3), g.pick(1, 2, 3))
        if not fits(g, x, not valid, size, stride):
            return None
        return Op(code, [x], (5, [("b", valid), *[("i", v) for v in (*stride[::-1], *size[::-1])], act(g)]))
    return make


def resize(code, number):
    def make(g):
        flags = g.pick((0, 0), (1, 0), (0, 1))
        fields = [("b", flags[0]), ("b", flags[1])]
        return Op(code, [g.images(), g.ints(int(g.rng.integers(1, 11)), int(g.rng.integers(1, 11)))],
                  (number, [None, None, *fields] if number == 15 else fields))
    return make


def fully_connected(g):
    x = g.of("f", 1, 4)
    shape = g.values[x].shape
    deep = shape[-1] if len(shape) < 3 or g.maybe(0.7) else shape[-1] * shape[-2]
    keep = int(deep == shape[-1] and g.maybe())
    out = g.pick(1, 2, 3, 5)
    bias = [g.fresh((out,), "f", 0.9)] if g.maybe(0.7) else [None] if g.maybe(0.3) else []
    return Op("FULLY_CONNECTED", [x, g.fresh((out, deep), "f", 0.8), *bias], (8, [act(g), ("b", 0), ("b", keep)]))


def batch_matmul(g):
    a = g.of("f", 2, 4)
    shape = list(g.values[a].shape)
    ax, ay = g.pick(0, 1), g.pick(0, 1)
    k, n = shape[-2] if ax else shape[-1], g.pick(1, 2, 3)
    lead = [1 if g.maybe(0.3) else s for s in shape[:-2]]
    lead = lead[int(g.rng.integers(0, len(lead) + 1)):] if g.maybe(0.3) else lead
    return Op("BATCH_MATMUL", [a, g.fresh((*lead, *((n, k) if ay else (k, n))))], (101, [("b", ax), ("b", ay)]))


def select(code):
    def make(g):
        a = g.of(g.pick("f", "f", "i"))
        shape = g.values[a].shape
        if code == "SELECT":
            return Op(code, [g.fresh(g.pick(shape, shape, shape[:1], ()), "b"), a, g.fresh(shape, g.kind(a))], kinds=[g.values[a].dtype.name])
        return Op(code, [g.fresh(tuple(1 if g.maybe(0.3) else s for s in shape), "b"), a, g.like(a)], kinds=[g.values[a].dtype.name])
    return make


def prelu(g):
    x = g.of("f", 1, 4)
    shape = g.values[x].shape
    return Op("PRELU", [x, g.fresh(g.pick(shape[1:], shape[-1:], (1,) * (len(shape) - 2) + shape[-1:], shape), "f", 0.8)])


def concatenation(g):
    x = g.of("n" if g.maybe(0.3) else "f")
    axis, parts = g.axis(x), [x]
    for _ in range(g.pick(0, 1, 1, 2, 3)):
        shape = list(g.values[x].shape)
        shape[axis] = g.pick(1, 2, 3)
        parts.append(g.fresh(tuple(shape), g.kind(x)))
    return Op("CONCATENATION", parts, (10, [("i", axis), act(g, 0.2)]))


def reshape(g):
    x = g.of(g.pick("f", "f", "i", "b"))
    sizes = list(g.values[x].shape)
    if len(sizes) > 1 and g.maybe():
        i = int(g.rng.integers(len(sizes) - 1))
        sizes[i:i + 2] = [sizes[i] * sizes[i + 1]]
    if g.maybe(0.4):
        sizes.insert(int(g.rng.integers(len(sizes) + 1)), 1)
    if sizes and g.maybe(0.4):
        sizes[int(g.rng.integers(len(sizes)))] = -1
    if g.maybe(0.3):
        return Op("RESHAPE", [x], (17, [ints(sizes)]))
    return Op("RESHAPE", [x, g.ints(*sizes)], (17, [ints(sizes)]) if g.maybe(0.3) else None)


def pad(code):
    def make(g):
        x = g.of(g.pick("f", "f", "i", "q"))
        shape = g.values[x].shape
        mode = g.pick(0, 1)
        most = [2 if code != "MIRROR_PAD" else s - 1 + mode for s in shape]
        pads = np.array([[int(g.rng.integers(0, min(m, 3) + 1)) for _ in "ab"] for m in most])
        pads = g.constant(pads.astype(np.int64 if g.maybe(0.2) else np.int32))
        if code == "MIRROR_PAD":
            return Op(code, [x, pads], (77, [("b", mode)]))
        return Op(code, [x, pads] + ([g.constant(g.array((1,) if g.maybe(0.5) else (), g.kind(x)))] if code == "PADV2" else []))
    return make


def transpose(g):
    x = g.of(g.pick("f", "f", "i", "b"))
    return Op("TRANSPOSE", [x, g.ints(*g.rng.permutation(g.values[x].ndim))])


def slice_(g):
    x = g.of(g.pick("f", "i", "b"))
    begin = [int(g.rng.integers(0, s)) for s in g.values[x].shape]
    size = [-1 if g.maybe(0.3) else int(g.rng.integers(1, s - b + 1)) for s, b in zip(g.values[x].shape, begin)]
    shape = [n - b if s == -1 else s for n, b, s in zip(g.values[x].shape, begin, size)]
    return Op("SLICE", [x, g.ints(*begin), g.ints(*size)], shape=shape)


def strided_slice(g):
    x = g.of(g.pick("f", "f", "i", "b"))
    shape = g.values[x].shape
    begin, end, step, masks, axis = [], [], [], [0] * 5, 0
    dots = g.maybe(0.3)
    for i in range(int(g.rng.integers(1, len(shape) + 1)) + g.maybe(0.2)):
        kind = g.pick("range", "range", "range", "range", "shrink", "new", "dots")
        if kind == "dots" and dots:
            masks[2], dots = 1 << i, False
            begin, end, step = [*begin, 0], [*end, 0], [*step, 1]
            axis = max(axis, len(shape) - 1)
            continue
        if kind == "new":
            masks[3] |= 1 << i
            begin, end, step = [*begin, g.pick(0, 1)], [*end, g.pick(0, 2)], [*step, 1]
            continue
        if axis >= len(shape):
            break
        size = shape[axis]
        if kind == "shrink":
            at = int(g.rng.integers(-size, size))
            masks[4] |= 1 << i
            begin, end, step = [*begin, at], [*end, at + 1], [*step, g.pick(1, 1, 1, 2)]
        else:
            begin.append(int(g.rng.integers(-size - 1, size + 2)))
            end.append(int(g.rng.integers(-size - 1, size + 2)))
            step.append(g.pick(1, 1, 2, -1, -2))
            masks[0] |= g.maybe(0.3) << i
            masks[1] |= g.maybe(0.3) << i
        axis += 1
    if not begin:
        return None
    return Op("STRIDED_SLICE", [x, g.ints(*begin), g.ints(*end), g.ints(*step)], (32, [("i", int(m)) for m in masks]))


def split(g):
    x = g.of(g.pick("f", "f", "i"))
    axis = g.axis(x)
    size = g.values[x].shape[axis]
    parts = g.pick(*[d for d in range(1, size + 1) if size % d == 0])
    return Op("SPLIT", [g.number(axis), x], (35, [("i", parts)]), parts, [g.values[x].dtype.name] * parts)


def split_v(g):
    x = g.of(g.pick("f", "f", "i"))
    axis = g.axis(x)
    size = g.values[x].shape[axis]
    first = int(g.rng.integers(0, size + 1))
    sizes = [first, size - first]
    if g.maybe(0.3):
        sizes[g.pick(0, 1)] = -1
    return Op("SPLIT_V", [x, g.ints(*sizes), g.number(axis)], (79, [("i", 2)]), 2)


def squeeze(g):
    shape = list(g.shape())
    shape.insert(int(g.rng.integers(len(shape) + 1)), 1)
    x = g.fresh(tuple(shape), g.pick("f", "i"), 0)
    ones = [i - len(shape) * g.maybe(0.3) for i, s in enumerate(shape) if s == 1]
    axes = [] if g.maybe(0.3) else list(ones)[:int(g.rng.integers(1, len(ones) + 1))]
    return Op("SQUEEZE", [x], (30, [ints(axes)]))


def expand_dims(g):
    x = g.of(g.pick("f", "i"))
    return Op("EXPAND_DIMS", [x, g.pick(g.number, g.ints)(g.axis(x, 1))])


def pack(g):
    x = g.of(g.pick("f", "i"), 0, 3)
    parts = [x] + [g.fresh(g.values[x].shape, g.kind(x)) for _ in range(g.pick(0, 1, 2))]
    return Op("PACK", parts, (59, [("i", len(parts)), ("i", g.axis(x, 1))]))


def unpack(g):
    x = g.of(g.pick("f", "i"))
    axis = g.axis(x)
    count = g.values[x].shape[axis]
    return Op("UNPACK", [x], (64, [("i", count), ("i", axis)]), count)


def gather(g):
    x = g.of(g.pick("f", "f", "i"))
    shape, axis = g.values[x].shape, g.axis(x)
    batch = 0 if g.maybe(0.7) else int(g.rng.integers(0, axis % len(shape) + 1))
    index = g.rng.integers(0, shape[axis], (*shape[:batch], *g.shape(0 if batch == 0 else 1, 2)))
    index = np.asarray(index).astype(np.int64 if g.maybe(0.2) else np.int32)
    return Op("GATHER", [x, g.constant(index)], (23, [("i", axis), ("i", batch)]))


def gather_nd(g):
    x = g.of(g.pick("f", "f", "i"))
    shape = g.values[x].shape
    deep = int(g.rng.integers(1, len(shape) + 1))
    index = np.stack([g.rng.integers(0, shape[i], g.pick((3,), (2, 2))[:2]) for i in range(deep)], -1) if g.maybe(0) else \
        np.stack([g.rng.integers(0, shape[i], (2, 2)) for i in range(deep)], -1)
    return Op("GATHER_ND", [x, g.constant(index.astype(np.int32))])


def embedding(g):
    rows = g.pick(2, 5)
    return Op("EMBEDDING_LOOKUP", [g.constant(g.rng.integers(0, rows, g.pick(1, 4)).astype(np.int32)), g.fresh((rows, *g.shape(1, 2)))], kinds=["float32"])


def reverse(g):
    x = g.of(g.pick("f", "i"))
    return Op("REVERSE_V2", [x, g.ints(g.axis(x))])


def tile(g):
    x = g.of(g.pick("f", "i", "b"))
    return Op("TILE", [x, g.constant(np.array([g.pick(1, 1, 2, 3) for _ in g.values[x].shape], g.pick(np.int32, np.int64)))])


def broadcast_to(g):
    x = g.of(g.pick("f", "i"), 1, 3)
    shape = [g.pick(2, 3) if s == 1 and g.maybe() else s for s in g.values[x].shape]
    return Op("BROADCAST_TO", [x, g.constant(np.array([*([2] if g.maybe(0.3) else []), *shape], g.pick(np.int32, np.int64)))])


def fill(g):
    value = g.fresh((), g.pick("f", "i", "q"), 0.3)
    return Op("FILL", [g.constant(np.array(g.shape(), g.pick(np.int32, np.int64))), value], kinds=[g.values[value].dtype.name])


def range_(g):
    if g.maybe():
        a = [g.constant(np.int32(v)) for v in (g.pick(-2, 0), g.pick(3, 5), g.pick(1, 2))]
    else:
        a = [g.constant(np.float32(v)) for v in (0.5, g.pick(3.2, 4.5), g.pick(0.5, 1.3))]
    return Op("RANGE", a)


def shape_(g):
    wide = g.maybe()
    return Op("SHAPE", [g.of()], (55, [("b", 4 if wide else 2)]), kinds=["int64" if wide else "int32"])


def one_hot(g):
    index = g.fresh(g.shape(0, 3), "i", 0)
    kind = g.pick("f", "i")
    return Op("ONE_HOT", [index, g.number(g.pick(2, 4)), g.constant(g.array((), kind)), g.constant(g.array((), kind))],
              (61, [("i", int(g.rng.integers(-1, g.values[index].ndim + 1)))]), kinds=["float32" if kind == "f" else "int32"])


def top_k(g):
    x = g.of("f")
    if len(np.unique(g.values[x])) != g.values[x].size:
        return None
    return Op("TOPK_V2", [x, g.number(int(g.rng.integers(1, g.values[x].shape[-1] + 1)))], None, 2, ["float32", "int32"])


def cast(g):
    x = g.of(g.pick("f", "i", "q", "b"))
    to = g.pick("float32", "int32", "int64", "bool", "uint8", "int16", "float16", "int8")
    return Op("CAST", [x], (37, [("b", NUMBERS[g.values[x].dtype.name]), ("b", NUMBERS[to])]), kinds=[to])


def cumsum(g):
    x = g.of(g.pick("f", "f", "i", "q"))
    return Op("CUMSUM", [x, g.number(g.axis(x))], (102, [("b", g.pick(0, 1)), ("b", g.pick(0, 1))]))


def lstm(g):
    steps, rows, width, units = (g.pick(1, 2, 3, 4) for _ in range(4))
    major = g.maybe()
    x = g.fresh((steps, rows, width) if major else (rows, steps, width), "f", 0)
    inputs = [x, *[g.fresh((units, width), "f", 1) for _ in range(4)], *[g.fresh((units, units), "f", 1) for _ in range(4)], None, None, None,
              *[g.fresh((units,), "f", 1) for _ in range(4)], None, None]
    state = [g.fresh((rows, units), "f", 0) for _ in "ab"]
    if any(i in g.ops for i in inputs):
        return None
    g.states = getattr(g, "states", set()) | set(state)
    return Op("UNIDIRECTIONAL_SEQUENCE_LSTM", [*inputs, *state],
              (71, [("b", 4), ("f", g.pick(0, 0, 0.5)), ("f", 0), ("b", int(major))]))


def blocks(code, number):
    def make(g):
        b = g.pick(1, 2, 3)
        n, h, w, c = (g.pick(1, 2, 3) for _ in range(4))
        shape = (n, h, w, c * b * b) if code == "DEPTH_TO_SPACE" else (n, h * b, w * b, c)
        return Op(code, [g.fresh(shape, "f", 0)], (number, [("i", b)]))
    return make


def lrn(g):
    return Op("LOCAL_RESPONSE_NORMALIZATION", [g.images()], (13, [("i", g.pick(0, 1, 2, 5)), ("f", g.pick(1.0, 2.0)), ("f", g.pick(1.0, 0.1)), ("f", g.pick(0.5, 0.75, 1.0))]))


def add_n(g):
    x = g.of(g.pick("f", "f", "i"))
    return Op("ADD_N", [x] + [g.fresh(g.values[x].shape, g.kind(x)) for _ in range(g.pick(1, 2))])


def logical(code):
    def make(g):
        a = g.of("b")
        return Op(code, [a, g.like(a)])
    return make


def compared(code):
    def make(g):
        a = g.of(g.pick("f", "i", "q", *("b" if code in ("EQUAL", "NOT_EQUAL") else "")))
        return Op(code, [a, g.like(a)], kinds=["bool"])
    return make


def pow_(g):
    a = g.of(g.pick("f", "i"))
    return Op("POW", [a, g.constant(g.array((), g.kind(a)) if g.kind(a) == "f" else np.int32(g.pick(0, 1, 2, 3)))])


MAKERS = [
    *[unary(c) for c in ("LOGISTIC", "TANH", "RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "HARD_SWISH", "ELU", "EXP", "LOG", "SQRT", "RSQRT",
                         "SQUARE", "SIN", "COS", "ABS", "NEG", "FLOOR", "CEIL", "ROUND", "SIGN", "ZEROS_LIKE")],
    unary("LEAKY_RELU", lambda g: (75, [("f", g.pick(0.0, 0.1, 0.5, -0.3, 2.0))])), unary("GELU", lambda g: (116, [("b", g.pick(0, 1))])),
    unary("LOGICAL_NOT", kinds="b"), unary("SOFTMAX", lambda g: (9, [("f", g.pick(1.0, 0.5, 2.0))])), unary("LOG_SOFTMAX"),
    unary("L2_NORMALIZATION", lambda g: (12, [act(g)])),
    binary("ADD", 11), binary("SUB", 28), binary("MUL", 21), binary("DIV", 29), binary("ADD", 11, "f"), binary("SUB", 28, "f"), binary("MUL", 21, "f"),
    *[binary(c) for c in ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD")], pow_, add_n,
    *[compared(c) for c in ("LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL", "NOT_EQUAL")], *[logical(c) for c in ("LOGICAL_AND", "LOGICAL_OR")],
    *[reduce(c) for c in ("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD")], arg("ARG_MAX", 40), arg("ARG_MIN", 57),
    conv, conv, depthwise, depthwise, transpose_conv, transpose_conv, pool("AVERAGE_POOL_2D"), pool("MAX_POOL_2D"), pool("L2_POOL_2D"),
    resize("RESIZE_BILINEAR", 15), resize("RESIZE_NEAREST_NEIGHBOR", 74), fully_connected, fully_connected, batch_matmul, batch_matmul,
    select("SELECT"), select("SELECT_V2"), prelu, concatenation, reshape, pad("PAD"), pad("PADV2"), pad("MIRROR_PAD"), transpose, slice_,
    strided_slice, strided_slice, strided_slice, split, split_v, squeeze, expand_dims, pack, unpack, gather, gather_nd, embedding, reverse, tile,
    broadcast_to, fill, range_, shape_, one_hot, top_k, cast, cast, cumsum, lstm, blocks("SPACE_TO_DEPTH", 19), blocks("DEPTH_TO_SPACE", 94), lrn,
]


# --- graft

stopped = []  # signals: Ctrl-C ends a run after its seed or case, with its counts


class Refused(Exception):
    """What graft says of a file that it does not convert or run."""


class Crashed(Exception):
    """A signal, a time-out, or an error without a sentence."""


class Graft:
    def __init__(self, path):
        self.path = os.path.abspath(path)

    def __call__(self, *arguments):
        try:
            done = subprocess.run([self.path, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT, check=False)
        except subprocess.TimeoutExpired as late:
            raise Crashed(f"no answer within {TIMEOUT} s: {arguments[0]}") from late
        if done.returncode == 0:
            return done.stdout
        message = done.stderr.strip().splitlines()
        if done.returncode not in (1, 2) or not message:
            raise Crashed(f"exit status {done.returncode} of {arguments[0]}: {' '.join(message[-2:])}")
        raise Refused(message[-1])

    def run(self, path, inputs, *flags):
        """What is written, by the files' names."""
        folder = os.path.dirname(path)
        out, feeds = f"{folder}/out", []
        shutil.rmtree(out, ignore_errors=True)
        self("convert", path, "-o", f"{folder}/net.graft", *flags)
        for i, (name, array) in enumerate(inputs.items()):
            np.save(f"{folder}/in.{i}.npy", array)
            feeds += ["--input", f"{name}={folder}/in.{i}.npy"]
        self("run", f"{folder}/net.graft", *feeds, "--allow-non-finite", "--out", out)
        return {os.path.basename(each)[:-4]: np.load(each) for each in glob.glob(f"{out}/*.npy")}


def difference(got, expected, limit=None):
    """Empty where the arrays agree; limit: how far numbers may be apart."""
    if got.shape != expected.shape:
        return f"has the shape {list(got.shape)} instead of {list(expected.shape)}"
    if got.dtype != expected.dtype:
        return f"is {got.dtype} instead of {expected.dtype}"
    if got.dtype.kind != "f":
        off = np.argwhere(got != expected)
        return f"differs at {off[0].tolist()}: {got[tuple(off[0])]} instead of {expected[tuple(off[0])]}" if len(off) else ""
    a, e = got.astype(np.float64).ravel(), expected.astype(np.float64).ravel()
    bad = ~np.isfinite(e)
    if not np.array_equal(a[bad], e[bad], equal_nan=True) or not np.isfinite(a[~bad]).all():
        i = next(i for i in range(len(a)) if not (a[i] == e[i] or (np.isnan(a[i]) and np.isnan(e[i]))) and (bad[i] or not np.isfinite(a[i])))
        return f"is {a[i]} instead of {e[i]} at {i}"
    a, e = a[~bad], e[~bad]
    if not a.size:
        return ""
    if limit is None:
        limit = FORWARD * max(np.abs(e).max(), 1e-3)
    off = np.abs(a - e)
    worst = int(np.argmax(off))
    return f"is {a[worst]:.6g} instead of {e[worst]:.6g}" if off[worst] > limit else ""


KNOWN = "known"


def excused(g, op):
    """Faults of the interpreter, which is of 2022."""
    if op.code in ("PAD", "PADV2", "MIRROR_PAD"):  # reads 64-bit paddings as pairs of 32 bits: [[0, 1]] pads by 0 and 0
        return g.values[op.inputs[1]].dtype == np.int64
    if op.code == "SIGN":  # has no kernel of quantized values and leaves the output as memory had it
        return op.inputs[0] in g.quantization
    if op.code == "DEPTHWISE_CONV_2D":  # with SAME and negative padding, the result depends on columns that no window reads
        x, fields = g.values[op.inputs[0]], [f[1] for f in op.options[1]]
        size, same = g.values[op.inputs[1]].shape[1:3], fields[0] == 0
        strides, dilations = (fields[2], fields[1]), (fields[6], fields[5])
        return same and any((-(-n // s) - 1) * s + (k - 1) * d + 1 < n for n, k, s, d in zip(x.shape[1:3], size, strides, dilations))
    return False


def fault_of(g, ops, expected, got, clipped):
    """The first difference; KNOWN if the interpreter is wrong there, as what follows is then as well."""
    errors = {}  # how far each value may be off
    for op in ops[:1] if clipped else ops:  # a value that one side cut off is another operator's input
        for name in op.outputs:
            if name not in expected:
                continue
            wanted, found, q = expected[name], got.get(name), g.quantization.get(name)
            if found is None:
                return f"{op.code}: {name} was not written"
            limit, before = None, [errors.get(n, 0) for n in op.inputs]
            if q is not None and wanted.dtype.kind in "iu":
                low, high = (q.real(np.array([v]))[0] for v in RANGES[wanted.dtype.name])
                real = q.real(wanted).astype(np.float32)
                if clipped:
                    found = np.clip(found, np.float32(low), np.float32(high))
                limit = float(q.scale[0]) * STEPS + 2e-4 * float(np.abs(real).max(initial=0)) + (sum if op.code == "ADD" else max)(before)
                wanted = real
            elif any(before):
                limit = max(before) + FORWARD * float(np.abs(wanted).max(initial=0))
            errors[name] = limit or 0
            said = difference(found, wanted, limit)
            if said and excused(g, op):
                return KNOWN
            if said:
                return f"{op.code}: {name} {said}" + (f" (a step is {q.scale[0]:.4g})" if q is not None else "")
    return ""


STEPS = 1.01  # both may round half a step; kernels of integers have tables and fixed-point factors


def is_half(g, op):
    """The interpreter leaves a constant that it folded into others unwritten."""
    return op.code == "DEQUANTIZE" and op.inputs[0] in g.constants


def check(g, ops, graft, runtime, folder):
    """(kind, text): right, refused, wrong, known (a fault of the interpreter), invalid."""
    states = getattr(g, "states", set())
    inputs, outputs = g.reads(ops), [n for op in ops for n in op.outputs if not is_half(g, op)]
    path = f"{folder}/net.tflite"
    with open(path, "wb") as file:
        file.write(g.file(ops, inputs, outputs))
    feeds = {n: g.values[n] for n in inputs}
    try:
        expected = g.ask(ops, outputs)
    except tflite_runtime.Refused as problem:
        return "invalid", str(problem)
    given = {n: g.quantization[n].real(v).astype(np.float32) if n in g.quantization else v for n, v in feeds.items() if n not in states}
    try:
        for flags in ([], ["--fake-quantize"]) if g.quantization else ([],):
            fault = fault_of(g, ops, expected, graft.run(path, given, *flags), clipped=bool(g.quantization) and not flags)
            if fault == KNOWN:
                return "known", ""
            if fault:
                return "wrong", " ".join([fault, *flags])
    except Refused as problem:
        return "refused", str(problem)
    except Crashed as problem:
        return "wrong", str(problem)
    return "right", ""


def check_variable(g, graft, runtime, folder):
    """As check(), of two runs: graft's variable is an input and an output."""
    path, inputs = f"{folder}/state.tflite", g.reads(g.ops)
    with open(path, "wb") as file:
        file.write(g.file(g.stateful, inputs, ["old", "again"], g.initial))
    feeds = [{n: g.values[n] for n in inputs}]
    feeds.append({n: v * np.float32(0.5) if v.dtype == np.float32 else v for n, v in feeds[0].items()})
    try:
        expected = runtime.run(path, feeds)
    except tflite_runtime.Refused as problem:
        return "invalid", str(problem)
    state = g.values[g.start]
    try:
        for step, (given, wanted) in enumerate(zip(feeds, expected)):
            got = graft.run(path, {**given, "state": state})
            state = got["state_next"]
            for name in ("old", "again"):
                said = difference(got[name], wanted[name])
                if said:
                    return "wrong", f"run {step + 1} with a variable: {name} {said}"
    except Refused as problem:
        return "refused", str(problem)
    except Crashed as problem:
        return "wrong", str(problem)
    return "right", ""


def minimised(g, graft, runtime, folder, text):
    """Leaves out operators as long as it fails: what they give becomes an input."""
    ops = list(g.ops)
    for op in list(ops):
        rest = [o for o in ops if o is not op]
        if not rest:
            break
        kind, said = check(g, rest, graft, runtime, folder)
        if kind == "wrong":
            ops, text = rest, said
    return ops, text


def main():
    signal.signal(signal.SIGINT, lambda number, _: stopped.append(number))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graft")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=0)
    parser.add_argument("--op")
    parser.add_argument("--save")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    runtime = tflite_runtime.find()
    if runtime is None:
        print("skipped: TFJS_TFLITE names no folder with npm's @tensorflow/tfjs-tflite")
        return 77
    graft = Graft(options.graft)
    counts, refusals, invalid, ops_seen, wrong = (collections.Counter(), collections.Counter(), collections.Counter(), collections.Counter(), 0)
    end, seed = time.time() + 60 * options.minutes, options.seed
    while not stopped and time.time() < end and (not options.count or seed < options.seed + options.count):
        with tempfile.TemporaryDirectory() as folder:
            kind_rng = np.random.default_rng([seed, 7])
            quantized = kind_rng.choice(["int8", "int8", "uint8", "int16"]) if kind_rng.random() < 0.35 else None
            g = Generator(runtime, seed, folder, None if quantized is None else str(quantized))
            for _ in range(1 if g.quantized else int(g.rng.integers(1, 5))):
                for _ in range(6):
                    if g.add(MAKERS[g.rng.integers(len(MAKERS))]):
                        break
            for _ in range(int(g.rng.integers(0, 3)) if g.quantization else 0):
                add_quantized(g)
            invalid.update(g.refused)
            if g.ops and g.maybe(0.15) and add_variable(g):
                kind, text = check_variable(g, graft, runtime, folder)
                counts[f"variables: {kind}"] += 1
                if kind == "refused":
                    refusals[re.sub(r'"[^"]*"|\d+', "_", text)[:170]] += 1
                if kind == "wrong":
                    wrong += 1
                    print(f"seed {seed}: {text}\n    " + "\n    ".join(o.text(g) for o in g.ops), flush=True)
            if g.ops and (not options.op or options.op in [o.code for o in g.ops]):
                kind, text = check(g, g.ops, graft, runtime, folder)
                counts[kind] += 1
                ops_seen.update(o.code + (" quantized" if g.quantization else "") for o in g.ops)
                if kind == "refused":
                    refusals[re.sub(r'"[^"]*"|\d+', "_", text)[:170]] += 1
                if kind in ("refused", "invalid") and options.verbose:
                    print(f"{kind} {seed}: {text}\n    " + "\n    ".join(o.text(g) for o in g.ops), flush=True)
                if kind == "wrong":
                    wrong += 1
                    ops, text = minimised(g, graft, runtime, folder, text)
                    print(f"seed {seed}: {text}\n    " + "\n    ".join(o.text(g) for o in ops), flush=True)
                    if options.save:
                        os.makedirs(options.save, exist_ok=True)
                        check(g, ops, graft, runtime, folder)
                        shutil.copy(f"{folder}/net.tflite", f"{options.save}/{seed}.tflite")
                        np.savez(f"{options.save}/{seed}.npz", **{n: g.values[n] for n in g.reads(ops)})
        seed += 1
    if options.verbose:
        for text, count in invalid.most_common(80):
            print(f"{count:6} not valid: {text}")
    for text, count in refusals.most_common(50):
        print(f"{count:6} refused: {text}")
    print(f"{len(ops_seen)} operators: {dict(sorted(ops_seen.items()))}")
    print(f"seeds {options.seed} to {seed - 1}: {dict(counts)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

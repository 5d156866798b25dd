"""Sequences of small ONNX nodes that mean one op, as PyTorch's exporter and people spell them.

Usage: patterns.py GRAFT [PATTERN ...]           converts and runs each; which ops it became
       patterns.py GRAFT --every N                every Nth alone
       patterns.py --write FOLDER [PATTERN ...]   writes FOLDER/PATTERN.OPSET[.dynamic].onnx, inputs and outputs as .npy
       patterns.py --list [PATTERN ...]           prints the nodes of each, with their constants

A file is written for each opset of 13 to 17 whose nodes differ from those of the opset before, and once more with a named
batch dimension where that changes the nodes. `Pattern.ops` says what graft should make of it for inference: how many of each
op that computes. Ops that only move or view (MOVES) are not counted, nor is what folds to a constant. All parameters of the
module have to be parameters of graft's, and nothing else.
"""

import collections
import json
import os
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy as np
    import onnx
    import torch
    from onnx import numpy_helper

    import pattern_attention
    import pattern_handmade
    import pattern_nodes
    import pattern_pointwise
    from pattern import Handmade
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

MOVES = {"reshape", "transpose", "slice", "concat", "expand", "pad", "cast"}
TOLERANCE = 1e-4  # f32 on both sides, other orders of summation; some hundred roundings in a row


def all_patterns():
    """Every pattern by name, in an order that does not change: weights come from one seed."""
    patterns = {}
    for module in (pattern_pointwise, pattern_attention, pattern_handmade, pattern_nodes):
        for name, make in module.PATTERNS.items():
            torch.manual_seed(len(patterns) + 1)
            patterns[name] = make()
    return patterns


def export(pattern, path, opset, dynamic=False):
    """As torch.onnx.export writes it with its defaults."""
    names = [f"input{i}" for i in range(len(pattern.inputs))]
    axes = {name: {0: "batch"} for name in (*names, "output")} if dynamic else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(pattern.module.eval(), tuple(pattern.inputs), path, input_names=names, output_names=["output"],
                          opset_version=opset, dynamic_axes=axes)


def constants_of(model):
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant" and node.attribute[0].name == "value":
            values[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
    return values


def text(model):
    """The nodes in order, one line each: constants that are small stand in the place of their names."""
    constants = constants_of(model)
    names = {}

    def operand(name):
        if name in constants:
            value = constants[name]
            return str(value.tolist()) if value.size <= 4 else f"const{list(value.shape)}"
        return names.get(name, name)

    lines = []
    for node in model.graph.node:
        if node.op_type == "Constant" and node.output[0] in constants:
            continue
        for out in node.output:
            names.setdefault(out, f"%{len(names)}")
        attributes = ", ".join(f"{a.name}={onnx.helper.get_attribute_value(a)}" for a in node.attribute
                               if (a.name, a.i) != ("allowzero", 0))  # all that opset 14 changes of Reshape
        lines.append(f"{', '.join(names[o] for o in node.output)} = {node.op_type}"
                     f"({', '.join(operand(i) if i else '-' for i in node.input)}){' {' + attributes + '}' if attributes else ''}")
    return lines


def write(name, pattern, folder):
    """Writes the files of one pattern; returns their paths without the ending."""
    written = []

    def save_arrays(stem, inputs, outputs):
        for key, value in {**inputs, **outputs}.items():
            np.save(f"{stem}.{key}.npy", value)
        written.append(stem)

    if isinstance(pattern, Handmade):
        stem = os.path.join(folder, name)
        onnx.save(pattern.model, f"{stem}.onnx")
        save_arrays(stem, pattern.inputs, pattern.expected)
        return written
    with torch.no_grad():
        expected = pattern.module.eval()(*pattern.inputs).numpy()
    inputs = {f"input{i}": tensor.numpy() for i, tensor in enumerate(pattern.inputs)}
    seen = []
    for opset in pattern.opsets:
        for dynamic in (False, True):
            stem = os.path.join(folder, f"{name}.{opset}{'.dynamic' if dynamic else ''}")
            export(pattern, f"{stem}.onnx", opset, dynamic)
            nodes = text(onnx.load(f"{stem}.onnx"))
            if nodes in seen:
                os.remove(f"{stem}.onnx")
                continue
            seen.append(nodes)
            save_arrays(stem, inputs, {"output": expected})
    return written


def graft(tool, *arguments):
    """What it printed, or None and the sentence of its failure."""
    done = subprocess.run([tool, *arguments], capture_output=True, text=True)
    return (done.stdout, "") if done.returncode == 0 else (None, done.stderr.strip().splitlines()[-1])


def fault(tool, stem, pattern):
    """What is wrong with what graft makes of a file; None if nothing is."""
    printed, why = graft(tool, "convert", f"{stem}.onnx", "-o", f"{stem}.graft", "--json")
    if printed is None:
        return f"does not convert: {why}"
    if not isinstance(pattern, Handmade):
        trained, wanted = json.loads(printed)["parameter_elements"], pattern.trained
        if wanted is None:
            wanted = sum(p.numel() for p in pattern.module.parameters())
        if trained != wanted:
            return f"{trained} elements are trained instead of {wanted}"
    inputs = pattern.inputs if isinstance(pattern, Handmade) else [f"input{i}" for i in range(len(pattern.inputs))]
    known = [value.name for value in onnx.load(f"{stem}.onnx").graph.input]  # without those that nothing reads
    feeds = [a for name in inputs if name in known for a in ("--input", f"{name}={stem}.{name}.npy")]
    printed, why = graft(tool, "run", f"{stem}.graft", *feeds, "--out", f"{stem}.out")
    if printed is None:
        return f"does not run: {why}"
    for name in pattern.expected if isinstance(pattern, Handmade) else ["output"]:
        actual, expected = np.load(f"{stem}.out/{name}.npy"), np.load(f"{stem}.{name}.npy")
        if actual.shape != expected.shape:
            return f"its {name} has the shape {actual.shape} instead of {expected.shape}"
        error = np.linalg.norm(actual - expected) / np.linalg.norm(expected)
        if not error <= TOLERANCE:
            return f"its {name} is off by {error:.2g}"
    bound = ["--bind", f"batch={expected.shape[0]}"] if stem.endswith(".dynamic") else []
    plan = json.loads(graft(tool, "plan", f"{stem}.graft", "--mode", "infer", "--json", "--no-fusion", *bound)[0])
    ops = collections.Counter(layer["op"] for layer in plan["plans"][0]["layers"] if layer["op"] not in MOVES)
    if ops != pattern.ops:
        return "became " + ", ".join(f"{n} {op}" for op, n in ops.items())
    return None


def check(tool, patterns):
    faults = files = 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("MESA_SHADER_CACHE_DIR", os.path.expanduser("~/.cache"))  # kernels are compiled once
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        for name, pattern in patterns.items():
            for stem in write(name, pattern, folder):
                found = fault(tool, stem, pattern)
                files += 1
                faults += found is not None
                wanted = ", ".join(f"{n} {op}" for op, n in pattern.ops.items())
                print(f"{os.path.basename(stem):34} {wanted:24} {found or 'ok'}", flush=True)
    print(f"{files} files, {faults} not as they should be")
    return 1 if faults else 0


def main():
    wanted = sys.argv[3 if sys.argv[1] == "--write" else 2:]
    patterns = all_patterns()
    if wanted and wanted[0] == "--every":
        patterns = dict(list(patterns.items())[::int(wanted[1])])
    elif wanted:
        patterns = {n: p for n, p in patterns.items() if n in wanted}
    if sys.argv[1] == "--write":
        os.makedirs(sys.argv[2], exist_ok=True)
        for name, pattern in patterns.items():
            for stem in write(name, pattern, sys.argv[2]):
                print(f"{stem}.onnx: {', '.join(f'{n} {op}' for op, n in pattern.ops.items())}")
        return 0
    if sys.argv[1] != "--list":
        return check(os.path.abspath(sys.argv[1]), patterns)
    with tempfile.TemporaryDirectory() as folder:
        for name, pattern in patterns.items():
            for stem in write(name, pattern, folder):
                print(f"{os.path.basename(stem)} -> {', '.join(f'{n} {op}' for op, n in pattern.ops.items())}")
                print("\n".join("  " + line for line in text(onnx.load(f"{stem}.onnx"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""What graft exports as ONNX, run by ONNX Runtime and compared with what graft itself gives.

Usage: judge.py GRAFT [--install FOLDER] [--every N] [GROUP[/NAME] ...]

Each network of these tests is converted, run, trained for one step where it has parameters, and exported twice: as graft's own
graph, and as the source's with the new weights. ONNX Runtime runs the source, both exports before and those after the step.
Groups: zoo, parity, kinds, formats, recurrent, spatial, patterns, quantized, decoders, and cases: ONNX's own backend cases of
GRAFT_TEST_DATA, of which those that graft converts are exported. --every N takes every Nth of each group.

ONNX Runtime is npm's onnxruntime-node, in the folder that ONNXRUNTIME_NODE names; --install FOLDER asks npm's registry for it.
Exit status: 0 all agree, 1 some do not, 77 torch, onnx or ONNX Runtime is not installed.
"""

import argparse
import collections
import itertools
import os
import re
import sys
import tarfile
import tempfile
import warnings

try:
    import numpy as np
    import onnx
    import torch
    from onnx import numpy_helper

    import decoder_parity
    import decoders
    import formats
    import kinds
    import networks
    import onnx_runtime
    import open_sizes
    import parity
    import patterns
    import quantized
    import random_networks
    import recurrent_parity
    import spatial_parity
    import zoo
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

from parity import graft

# f32 on both sides, other orders of summation, as in parity.py.
TOLERANCE = 1e-4
# A value near a tie goes to the next of 255 steps where f32 sums in another order, as in quantized.py.
QUANTIZED_TOLERANCE = 1e-2
# As ONNX's own runner has it.
CASES_TOLERANCE = 1e-3

# model: a file to convert. inputs: arrays by name. expected: outputs by name, where somebody says what they are.
Item = collections.namedtuple("Item", "name model inputs expected tolerance trained", defaults=(None, TOLERANCE, True))


class Unable(RuntimeError):
    """A case that graft does not convert, which is no matter of exports."""


def arrays(tensors):
    return {name: tensor.detach().numpy() for name, tensor in tensors.items()}


def exported(module, inputs, path, outputs, opset=14, axes=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module.eval(), tuple(inputs.values()), path, input_names=list(inputs), output_names=list(outputs),
                          dynamic_axes={n: {0: "batch"} for n in (*inputs, *outputs)} if axes is None else axes, opset_version=opset,
                          training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)


def from_zoo(folder, name):
    zoo.export(name, f"{folder}/net.onnx", dropout=False)
    tensors = zoo.batch_of(name, 2)[0]
    return Item(name, f"{folder}/net.onnx", arrays({f"input{i}": t for i, t in enumerate(tensors)}))


def from_cases(cases, opset):
    """Of parity.py and its like: a module and its inputs."""
    def make(folder, name):
        torch.manual_seed(1)
        model, tensors = cases[name]()
        inputs = {f"input{i}": t for i, t in enumerate(tensors)}
        # With packed sequences torch writes the batch that it traced into the state of zeros.
        exported(model, inputs, f"{folder}/net.onnx", ["output"], opset, {} if "lengths" in name else None)
        return Item(name, f"{folder}/net.onnx", arrays(inputs))
    return make


def from_kinds(folder, name):
    torch.manual_seed(sum(map(ord, name)))
    kind = kinds.KINDS[name]
    model = networks.scatter_affine(kind.make())
    inputs = {n: make(kinds.BATCH) for n, make in kind.inputs.items()}
    axes = {n: {0: "batch", **kind.free.get(n, {})} for n in (*inputs, *kind.outputs)}
    exported(model, inputs, f"{folder}/net.onnx", kind.outputs, axes=axes)
    return Item(name, f"{folder}/net.onnx", arrays(inputs))


def from_open_sizes(folder, name):
    """Exported with one size, and asked with another."""
    torch.manual_seed(1)
    make, shape = open_sizes.NETWORKS[name]
    axes, larger = random_networks.opened(shape)
    exported(make(), {"x": torch.randn(3, *shape)}, f"{folder}/net.onnx", ["y"], open_sizes.OPSET, {"x": axes, "y": {0: "batch"}})
    return Item(name, f"{folder}/net.onnx", arrays({"x": torch.randn(2, *larger)}))


def from_formats(folder, name):
    torch.manual_seed(1)
    model, x = formats.NETWORKS[name]()
    formats.save_onnx(model, x, f"{folder}/net.onnx")
    return Item(name, f"{folder}/net.onnx", arrays({"x": x}))


def from_patterns(folder, name):
    pattern = PATTERNS[name]
    stem = patterns.write(name, pattern, folder)[0]
    model = onnx.load(f"{stem}.onnx")
    inputs = {value.name: np.load(f"{stem}.{value.name}.npy") for value in model.graph.input}
    # What nothing reads stays an input of what graft writes.
    return Item(name, f"{stem}.onnx", inputs)


def from_quantized(folder, name):
    np.random.seed(3)
    torch.manual_seed(3)
    x = torch.randn(8, 3, 32, 32)
    writer = quantized.network(x)
    writer.save(f"{folder}/net.onnx")
    return Item(name, f"{folder}/net.onnx", arrays({"x": x}), None, QUANTIZED_TOLERANCE, trained=name == "trained")


def from_decoders(folder, name):
    torch.manual_seed(1)
    config = decoder_parity.CASES[name]
    decoder_parity.write_folder(f"{folder}/model", config, decoders.random_weights(config, seed=1))
    tokens = torch.randint(0, config["vocab_size"], (2, 11))
    return Item(name, f"{folder}/model", {"tokens": tokens.numpy().astype(np.int32)}, trained=False)


def read_tensor(data, value):
    """A tensor of a case, or None of what is none (a sequence, an optional)."""
    if not value.type.HasField("tensor_type"):
        return None
    tensor = onnx.TensorProto()
    tensor.ParseFromString(data)
    try:
        return numpy_helper.to_array(tensor)
    except KeyError:  # a type that this onnx package does not know
        return None


def from_archive(folder, name):
    files = CASES[name]
    with open(f"{folder}/net.onnx", "wb") as out:
        out.write(files["model.onnx"])
    model = onnx.load(f"{folder}/net.onnx")
    given = {t.name for t in model.graph.initializer}
    sides = []
    for kind, values in (("input", [v for v in model.graph.input if v.name not in given]), ("output", model.graph.output)):
        side = {}
        for i, value in enumerate(values):
            data = files.get(f"test_data_set_0/{kind}_{i}.pb")
            array = None if data is None else read_tensor(data, value)
            if array is None or array.dtype == object:
                raise Unable(f"its {kind} {value.name} is no tensor of numbers")
            side[value.name] = array
        sides.append(side)
    return Item(name, f"{folder}/net.onnx", sides[0], sides[1], CASES_TOLERANCE, trained=False)


def read_cases():
    """Files of each case by their names."""
    cases = collections.defaultdict(dict)
    path = os.path.join(decoder_parity.DATA, "onnx-conformance/cases.tar.gz")
    if os.path.exists(path):
        with tarfile.open(path) as archive:
            for member in archive:
                place = re.fullmatch(r"(.*?)/(model\.onnx|test_data_set_0/[^/]*)", os.path.normpath(member.name))
                if member.isfile() and place:
                    cases[place.group(1)][place.group(2)] = archive.extractfile(member).read()
    return {name: files for name, files in cases.items() if "model.onnx" in files}


PATTERNS, CASES = {}, {}
# name: names of its networks, and what makes an Item of one in a folder.
GROUPS = {
    "zoo": (zoo.NETWORKS, from_zoo),
    "parity": (networks.NETWORKS, from_cases(networks.NETWORKS, 14)),
    "kinds": (kinds.KINDS, from_kinds),
    "open_sizes": (open_sizes.NETWORKS, from_open_sizes),
    "formats": (formats.NETWORKS, from_formats),
    "recurrent": (recurrent_parity.NETWORKS, from_cases(recurrent_parity.NETWORKS, 14)),
    "spatial": (spatial_parity.CASES, from_cases(spatial_parity.CASES, 16)),
    "patterns": (PATTERNS, from_patterns),
    "quantized": (("frozen", "trained"), from_quantized),
    "decoders": (decoder_parity.CASES, from_decoders),
    "cases": (CASES, from_archive),
}


def difference(actual, expected, tolerance):
    """Empty where the arrays agree."""
    if actual.shape != expected.shape:
        return f"has the shape {actual.shape} instead of {expected.shape}"
    if actual.dtype != expected.dtype:
        return f"is {actual.dtype} instead of {expected.dtype}"
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(e)) or not np.array_equal(a[~np.isfinite(a)], e[~np.isfinite(e)], True):
        return "has other places that are not finite"
    a, e = a[np.isfinite(a)], e[np.isfinite(e)]
    off = np.linalg.norm(a - e) / max(np.linalg.norm(e), 1e-12)
    return "" if off <= tolerance or np.abs(a - e).max() <= 1e-6 else f"is off by {off:.2g}"


class Judge:
    def __init__(self, runtime):
        self.runtime = runtime
        self.counts = collections.Counter()
        self.failures = []

    def say(self, group, item, what, fault):
        self.counts[f"{what}: {'right' if not fault else 'not'}"] += 1
        if fault:
            self.failures.append(f"{group}/{item.name}: {what} {fault}")
            print(self.failures[-1], flush=True)

    def asked(self, path, item):
        """What ONNX Runtime makes of a file, and what it says where it does not run it."""
        try:
            return self.runtime.run(path, item.inputs), ""
        except onnx_runtime.Refused as problem:
            return None, f"is refused: {problem}"

    def compare(self, group, item, what, path, wanted):
        outputs, fault = self.asked(path, item)
        # Not graft's: attention's masks of heads, heads of a number of elements; bfloat16, which the binding to node does not have.
        if outputs is None and (what == "source" or "Unsupported data type" in fault):
            self.counts[f"{what}: ONNX Runtime does not run it"] += 1
            return
        for name, expected in wanted.items() if outputs is not None else ():
            if name not in outputs:
                fault = fault or f"has no output {name}"
                continue
            found = difference(outputs[name], expected, item.tolerance)
            fault = fault or (found and f"{name} {found}")
        self.say(group, item, what, fault)


def feeds(item, folder):
    flags = []
    for i, (name, array) in enumerate(item.inputs.items()):
        np.save(f"{folder}/in.{i}.npy", array)
        flags += ["--input", f"{name}={folder}/in.{i}.npy"]
    return flags


def outputs_of(path, item, folder, flags):
    """What graft gives, by the outputs' names."""
    graft("run", path, *flags, "--allow-non-finite", "--out", f"{folder}/out")
    names = [value.name for value in onnx.load(f"{folder}/own.onnx").graph.output]
    return {name: np.load(f"{folder}/out/{parity.file_of(name)}") for name in names}


def convert(item, folder):
    """Inputs that shapes depend on become constants, as the tool asks for them; the item with what is left."""
    flags = ["--expand"] if item.name == "trained" else []
    inputs = dict(item.inputs)
    while True:
        try:
            graft("convert", item.model, "-o", f"{folder}/net.graft", *flags)
            return item._replace(inputs=inputs)
        except RuntimeError as problem:
            wanted = re.search(r"--constant '?([^'=]+)=", str(problem))
            if wanted is None or wanted.group(1) not in inputs:
                raise Unable(str(problem).strip().splitlines()[-1]) from None
            np.save(f"{folder}/constant.{len(flags)}.npy", inputs.pop(wanted.group(1)))
            flags += ["--constant", f"{wanted.group(1)}={folder}/constant.{len(flags)}.npy"]


def train(item, folder, outputs):
    """One step of SGD towards random numbers; False where there is nothing to train."""
    name = next((n for n, a in outputs.items() if a.dtype == np.float32 and a.ndim and np.isfinite(a).all()), None)
    batch = next(iter(item.inputs.values())).shape[0] if item.inputs else 0
    if name is None or not batch or any(not a.ndim or a.shape[0] != batch for a in (*item.inputs.values(), outputs[name])):
        return False
    np.save(f"{folder}/target.npy", outputs[name] + 0.1 * np.random.default_rng(1).normal(size=outputs[name].shape).astype(np.float32))
    data = ",".join(f"{n}={folder}/in.{i}.npy" for i, n in enumerate(item.inputs))
    try:
        graft("train", f"{folder}/net.graft", "--data", f"npy:{data};target={folder}/target.npy", "--loss", f"mse:{name}=target",
              "--batch", batch, "--steps", 1, "--no-shuffle", "--optimizer", "sgd", "--lr", 0.01, "--quiet", "-o",
              f"{folder}/trained.graft")
    except RuntimeError as problem:
        if "no parameter" in str(problem) or "nothing to train" in str(problem).lower():
            return False
        raise
    return True


def check(judge, group, item, folder):
    item = convert(item, folder)
    flags = feeds(item, folder)
    graft("export", f"{folder}/net.graft", "-o", f"{folder}/own.onnx")
    try:
        outputs = outputs_of(f"{folder}/net.graft", item, folder, flags)
    except RuntimeError as problem:
        if "does not fit f32" in str(problem):  # doubles are computed as floats
            raise Unable(str(problem)) from None
        raise
    is_file = os.path.isfile(item.model)
    if is_file and item.expected is None:
        judge.compare(group, item, "source", item.model, outputs)
    judge.compare(group, item, "export", f"{folder}/own.onnx", item.expected or outputs)
    if not item.trained or not train(item, folder, outputs):
        return
    outputs = outputs_of(f"{folder}/trained.graft", item, folder, flags)
    graft("export", f"{folder}/trained.graft", "-o", f"{folder}/trained.onnx")
    judge.compare(group, item, "export after a step", f"{folder}/trained.onnx", outputs)
    graft("export", f"{folder}/trained.graft", "--source", item.model, "-o", f"{folder}/patched.onnx")
    judge.compare(group, item, "source with new weights", f"{folder}/patched.onnx", outputs)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("graft")
    options.add_argument("wanted", nargs="*")
    options.add_argument("--install")
    options.add_argument("--every", type=int, default=1)
    options = options.parse_args()
    if options.install and not onnx_runtime.install(options.install):
        print("skipped: node, npm or its registry is not there")
        return 77
    runtime = onnx_runtime.find()
    if runtime is None:
        print("skipped: ONNXRUNTIME_NODE names no folder with npm's onnxruntime-node (--install FOLDER gets it)")
        return 77
    parity.GRAFT = os.path.abspath(options.graft)
    torch.set_num_threads(1)
    PATTERNS.update(patterns.all_patterns())
    CASES.update(read_cases())
    judge, unable = Judge(runtime), collections.Counter()
    for group, (names, make) in GROUPS.items():
        chosen = [n for n in names if not options.wanted or group in options.wanted or f"{group}/{n}" in options.wanted]
        for name in itertools.islice(chosen, 0, None, options.every):
            with tempfile.TemporaryDirectory() as folder:
                item = Item(name, "", {})
                try:
                    item = make(folder, name)
                    check(judge, group, item, folder)
                except Unable:
                    unable[group] += 1
                except RuntimeError as problem:
                    text = str(problem).strip().splitlines()[-1]
                    if group == "cases" and "was not exported" in text:  # random numbers, places of a pool's largest
                        judge.counts["export: refused with the reason"] += 1
                        print(f"{group}/{name}: {text}", flush=True)
                    else:
                        judge.say(group, item, "graft", f"fails: {text}")
    for what, count in sorted(judge.counts.items()):
        print(f"{count:6} {what}")
    print(", ".join(f"{count} of {group} are not converted" for group, count in unable.items()))
    print(f"ONNX Runtime {runtime.version}: " + ("all agree" if not judge.failures else f"{len(judge.failures)} do not agree"))
    return 1 if judge.failures else 0


if __name__ == "__main__":
    sys.exit(main())

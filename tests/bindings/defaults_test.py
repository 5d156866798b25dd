"""With nothing said but the optimizer, or the loss, each language trains to the bytes of the command line.

usage: defaults_test.py GRAFT C_PROGRAM CPP_PROGRAM [--python PACKAGE] [--java COMMAND...]
Exit status 77: there is no device.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "cli"))

import small_network as onnx  # noqa: E402

OPTIMIZERS = ("adamw", "adam", "sgd", "adamw8bit", "lion", "rmsprop", "adagrad", "adafactor", "lamb", "muon")
LOSSES = ("ce", "mse", "l1", "bce", "focal", "dice", "huber", "smooth_l1", "kl", "cosine", "triplet", "info_nce", "ctc", "output")
SAMPLES, INPUTS, HIDDEN, CLASSES, TIME = 8, 6, 1024, 4, 5  # adamw8bit keeps tensors of 4,096 elements and more in 8 bits


def random(shape, seed):
    return numpy.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


def write_network(path, outputs, time=()):
    """A hidden layer, and a linear one for each output."""
    nodes, weights = [], []

    def linear(source, name, rows, columns, seed):
        weights.append(onnx.tensor(f"{name}.w", (rows, columns), (0.1 * random((rows, columns), seed)).ravel().tolist()))
        weights.append(onnx.tensor(f"{name}.b", (columns,), random((columns,), seed + 1).ravel().tolist()))
        nodes.append(onnx.node("MatMul", [source, f"{name}.w"], f"{name}.product"))
        nodes.append(onnx.node("Add", [f"{name}.product", f"{name}.b"], name))

    linear("x", "hidden", INPUTS, HIDDEN, 1)
    nodes.append(onnx.node("Relu", ["hidden"], "active"))
    for i, name in enumerate(outputs):
        linear("active", name, HIDDEN, CLASSES, 10 + 2 * i)
    graph = b"".join([*nodes, onnx.field(2, "g"), *weights, onnx.value(11, "x", "batch", *time, INPUTS),
                      *(onnx.value(12, name, "batch", *time, CLASSES) for name in outputs)])
    path.write_bytes(onnx.field(1, 8) + onnx.field(7, graph) + onnx.field(8, onnx.field(1, "") + onnx.field(2, 13)))


def data_of(loss, folder):
    """The network of a loss, and its data set."""
    x = folder / "x.npy"
    numpy.save(x, random((SAMPLES, INPUTS), 3))
    # Losses of one kind of targets share a file, and so a process for each language.
    target = folder / "numbers.npy"
    if loss in ("ce", "focal"):
        target = folder / "classes.npy"
        numpy.save(target, numpy.arange(SAMPLES, dtype="int32") % CLASSES)
    elif loss in ("bce", "dice", "kl"):
        target = folder / "parts.npy"
        rows = numpy.abs(random((SAMPLES, CLASSES), 5))
        numpy.save(target, rows / rows.sum(axis=1, keepdims=True))
    elif loss == "cosine":
        target = folder / "signs.npy"
        numpy.save(target, numpy.array([1, -1] * (SAMPLES // 2), dtype="float32"))
        return "three", f"npy:{x},{target}"
    elif loss in ("triplet", "info_nce", "output"):
        return "one" if loss == "output" else "three", f"npy:x={x};"
    elif loss == "ctc":
        target = folder / "symbols.npy"
        numpy.save(folder / "sequences.npy", random((SAMPLES, TIME, INPUTS), 7))
        numpy.save(target, numpy.tile(numpy.array([1, 2], dtype="int32"), (SAMPLES, 1)))
        return "sequence", f"npy:{folder}/sequences.npy,{target}"
    else:
        numpy.save(target, random((SAMPLES, CLASSES), 6))
    return "one", f"npy:{x},{target}"


def python_run(package, path, spec, *runs):
    """By the package alone; in a process of its own."""
    sys.path.insert(0, package)
    import graft
    context = graft.Context(cache=None)
    for loss, optimizer, out in zip(runs[::3], runs[1::3], runs[2::3]):
        model = context.load(path)
        data = context.open_data(spec, model=model)
        trainer = model.trainer(loss=LOSSES[int(loss)], optimizer=OPTIMIZERS[int(optimizer)], batch=4, data=data)
        loader = data.loader(batch=4, epochs=1)
        while trainer.train_next(loader) is not None:
            pass
        trainer.store()
        model.save(out)


def run(*command):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode == 77:
        print("Skipped:", done.stdout)
        sys.exit(77)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command[:4]))} failed with {done.returncode}: {done.stdout}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("graft")
    parser.add_argument("programs", nargs=2)
    parser.add_argument("--python")
    parser.add_argument("--java", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    languages = {"C": [options.programs[0]], "C++": [options.programs[1]]}
    if options.python:
        languages["Python"] = [sys.executable, "-B", __file__, "--run", options.python]
    if options.java:
        languages["Java"] = options.java
    with tempfile.TemporaryDirectory(prefix="graft_defaults_") as name:
        folder = pathlib.Path(name)
        write_network(folder / "one.onnx", ("y",))
        write_network(folder / "three.onnx", ("a", "b", "c"))
        write_network(folder / "sequence.onnx", ("y",), (TIME,))
        for model in ("one", "three", "sequence"):
            run(options.graft, "convert", folder / f"{model}.onnx", "-o", folder / f"{model}.graft")
        cases = {}  # runs by model and data, which one process does
        for loss, optimizer in [("ce", name) for name in OPTIMIZERS] + [(name, "adamw") for name in LOSSES[1:]]:
            cases.setdefault(data_of(loss, folder), []).append((loss, optimizer))
        weights = set()
        for (model, spec), pairs in cases.items():
            path = folder / f"{model}.graft"
            for loss, optimizer in pairs:
                tool = folder / f"tool_{loss}_{optimizer}.graft"
                run(options.graft, "train", path, "--data", spec, "--loss", loss, "--optimizer", optimizer, "--batch", 4, "--quiet",
                    "-o", tool)
                weights.add(tool.read_bytes())
            for language, command in languages.items():
                outs = [folder / f"{language}_{loss}_{optimizer}.graft" for loss, optimizer in pairs]
                run(*command, path, spec, *(word for (loss, optimizer), out in zip(pairs, outs)
                                            for word in (LOSSES.index(loss), OPTIMIZERS.index(optimizer), out)))
                for (loss, optimizer), out in zip(pairs, outs):
                    if out.read_bytes() != (folder / f"tool_{loss}_{optimizer}.graft").read_bytes():
                        sys.exit(f"With {loss} and {optimizer}, {language} trains to other weights than the command line.")
        count = sum(map(len, cases.values()))
        if len(weights) != count - 1:  # by their defaults, huber and smooth_l1 are one function
            sys.exit(f"{count} runs end in {len(weights)} models: some loss or optimizer was not used.")
        print(f"{count} runs, in {', '.join(languages)}: the bytes of the command line.")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        python_run(*sys.argv[2:])
    else:
        main()

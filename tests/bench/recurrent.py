"""A training step of a recurrent network in graft and in PyTorch on the CPU, in one run.

Usage: recurrent.py GRAFT [--kind lstm|gru|rnn] [--hidden N] [--layers N] [--steps N] [--batch N] [--times N] [--rounds N]

Both train the same network on the same batches with SGD; the steps of one stand between those of the other (rounds), so
that a machine that is shared slows both alike. PyTorch takes one thread and all in turn. Printed are the median and the
least of each, and the ratio of medians.
"""

import argparse
import os
import statistics
import subprocess
import tempfile
import time
import warnings

import numpy as np
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self, kind, hidden, layers):
        super().__init__()
        self.layers = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}[kind](hidden, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, 10)

    def forward(self, x):
        return self.head(self.layers(x)[0][:, -1])


def torch_seconds(model, x, labels, times, threads):
    torch.set_num_threads(threads)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        loss = nn.functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        taken.append(time.perf_counter() - begin)
    return taken


def graft_seconds(tool, folder, batch, times):
    """Of each step but the first two, seen from when its line appears in the metrics."""
    lines = f"{folder}/metrics.jsonl"
    if os.path.exists(lines):
        os.remove(lines)
    child = subprocess.Popen([tool, "train", f"{folder}/net.graft", "--data", f"npy:{folder}/x.npy,{folder}/y.npy", "--batch",
                              str(batch), "--steps", str(times + 2), "--no-shuffle", "--optimizer", "sgd", "--lr", "0.05",
                              "--quiet", "--metrics", lines, "-o", f"{folder}/trained.graft"], stdout=subprocess.DEVNULL)
    ends = []
    while child.poll() is None:
        time.sleep(0.001)
        if os.path.exists(lines):
            with open(lines, "rb") as file:
                ends += [time.perf_counter()] * (file.read().count(b'"kind":"step"') - len(ends))
    if child.returncode != 0:
        raise SystemExit("graft train failed")
    return [b - a for a, b in zip(ends[1:], ends[2:])]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("graft")
    parser.add_argument("--kind", default="lstm", choices=("lstm", "gru", "rnn"))
    for name, value in (("hidden", 128), ("layers", 2), ("steps", 100), ("batch", 32), ("times", 5), ("rounds", 3)):
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(1)
    model = Classifier(options.kind, options.hidden, options.layers)
    x, labels = torch.randn(options.batch, options.steps, options.hidden), torch.randint(0, 10, (options.batch,))
    ours, theirs = [], {threads: [] for threads in (1, os.cpu_count() or 1)}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        torch.onnx.export(model, x, f"{folder}/net.onnx", input_names=["x"], output_names=["y"],
                          dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}}, opset_version=14, do_constant_folding=False,
                          training=torch.onnx.TrainingMode.PRESERVE)
        subprocess.run([options.graft, "convert", f"{folder}/net.onnx", "-o", f"{folder}/net.graft"], check=True,
                       stdout=subprocess.DEVNULL)
        np.save(f"{folder}/x.npy", np.concatenate([x.numpy()] * (options.times + 2)))
        np.save(f"{folder}/y.npy", np.concatenate([labels.numpy()] * (options.times + 2)))
        torch_seconds(model.train(), x, labels, 1, 1)
        for _ in range(options.rounds):
            for threads, taken in theirs.items():
                taken += torch_seconds(model, x, labels, options.times, threads)
            ours += graft_seconds(options.graft, folder, options.batch, options.times)
    print(f"{options.kind} {options.hidden} x {options.layers} layers, {options.steps} steps, batch {options.batch}; median "
          f"and least of {len(ours)} training steps, ms")
    middle = statistics.median(ours)
    print(f"  graft: {1e3 * middle:.1f}, {1e3 * min(ours):.1f}")
    for threads, taken in theirs.items():
        median = statistics.median(taken)
        print(f"  PyTorch {torch.__version__}, threads {threads}: {1e3 * median:.1f}, {1e3 * min(taken):.1f}; ratio "
              f"{middle / median:.2f}")


if __name__ == "__main__":
    main()

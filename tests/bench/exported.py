"""Networks that PyTorch exported, in two versions of graft: what each makes of them, and how fast that runs.

Usage: exported.py BEFORE AFTER [--rounds N] [--no-times] [NETWORK ...]    (two graft binaries; networks of tests/torch/zoo.py)

Prints Markdown. The versions take turns (A B A B ...), and the least of the runs counts: noise only adds to it. Times are by the
clock.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../torch"))

import zoo  # noqa: E402  (exits with 77 where torch is missing)

STEPS = 8
MIB = 2**20


def convert(tool, folder, name, side):
    """The model's path, or None and graft's sentence."""
    path = f"{folder}/{name}.{side}.graft"
    try:
        zoo.graft(tool, "convert", f"{folder}/{name}.onnx", "-o", path)
        return path, None
    except RuntimeError as failed:
        return None, str(failed).removeprefix("graft: ")


def plan(tool, model, mode, batch):
    flags = ["--batch", batch] if mode == "train" else ["--bind", f"batch={batch}"]
    return json.loads(zoo.graft(tool, "plan", model, "--mode", mode, "--json", *flags))["plans"][0]


def moved(tool, model):
    """MiB that inference at batch 1 moves, fused dispatches counted as such: what plan's text says and its JSON does not."""
    text = zoo.graft(tool, "plan", model, "--mode", "infer", "--bind", "batch=1")
    number, unit = re.search(r"([\d.,]+) (B|KiB|MiB|GiB) moved", text).groups()
    return float(number.replace(",", "")) * 1024 ** (["B", "KiB", "MiB", "GiB"].index(unit) - 2)


def figures(tool, model, batch):
    """Of inference at batch 1 and, where the command line trains it, of a training step."""
    forward = plan(tool, model, "infer", 1)
    nodes = forward["nodes"]
    made = {"nodes": len(nodes), "transposes": sum(n["op"] == "transpose" for n in nodes),
            "dispatches": forward["dispatches"], "moved": moved(tool, model)}
    if batch:
        step = plan(tool, model, "train", batch)
        made.update(step_dispatches=step["dispatches"], arena=step["arena"] / MIB)
    return made


def step_seconds(tool, model, folder, name):
    """The shortest training step by the clock, seen from when its line appears in the metrics: a neighbour's bursts are left out,
    as are starting and compiling."""
    lines = f"{folder}/metrics.jsonl"
    if os.path.exists(lines):
        os.remove(lines)
    flags = zoo.data_flags(folder, name, zoo.NETWORKS[name].batch, STEPS)[2]
    command = [tool, "train", model, "--quiet", *flags, "--steps", STEPS, "--no-shuffle", "--optimizer", "sgd", "--lr", "1e-4",
               "--metrics", lines, "-o", f"{folder}/out.graft"]
    child = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ends = []
    while child.poll() is None:
        time.sleep(0.001)
        if os.path.exists(lines):
            with open(lines, "rb") as file:
                ends += [time.monotonic()] * (file.read().count(b'"kind":"step"') - len(ends))
    if child.returncode != 0:
        raise RuntimeError(f"graft train {model} failed")
    return min(b - a for a, b in zip(ends, ends[1:]))


def forward_seconds(tool, model, batch):
    """The best of some runs of the forward pass, by the clock: it begins anew each time, so a neighbour's burst is left out."""
    text = zoo.graft(tool, "bench", model, "--bind", f"batch={batch}", "--repeat", "9", "--json")
    return json.loads(text)["forward"]["best_s"]


def times(tools, models, folder, name, rounds):
    """{"forward", "step"}: seconds of each version, the versions in turn; the least of the rounds, which noise only adds to."""
    batch = zoo.NETWORKS[name].batch
    taken = {"forward": [[] for _ in tools], "step": [[] for _ in tools]}
    for _ in range(rounds):
        for i, (tool, model) in enumerate(zip(tools, models)):
            taken["forward"][i].append(forward_seconds(tool, model, batch))
            taken["step"][i].append(step_seconds(tool, model, folder, name))
    return {kind: [min(side) for side in sides] for kind, sides in taken.items()}


def both(before, after, form="{:,.0f}"):
    if before is None:
        return f"- → {form.format(after)}"
    return f"{form.format(before)} → {form.format(after)}"


def ratio(before, after):
    return f"{before / after:.2f}" if before and after > 0 else "-"


def table(title, header, rows):
    print(f"\n{title}\n\n| {' | '.join(header)} |\n|{' --- |' * len(header)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("networks", nargs="*")
    options = parser.parse_intermixed_args()
    tools = [os.path.abspath(t) for t in (options.before, options.after)]
    graphs, speeds, agreements, failures = [], [], [], []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
        for name, entry in zoo.NETWORKS.items():
            if options.networks and name not in options.networks:
                continue
            print(f"{name} ...", file=sys.stderr, flush=True)
            zoo.export(name, f"{folder}/{name}.onnx", dropout=False)
            models, whys = zip(*(convert(tool, folder, name, side) for tool, side in zip(tools, ("before", "after"))))
            for side, why in zip(("before", "after"), whys):
                if why:
                    failures.append([name, side, f"does not convert: {why}"])
            if models[1] is None:
                continue
            made = [figures(tool, model, entry.batch) if model else {} for tool, model in zip(tools, models)]
            old, new = made
            graphs.append([name, *(both(old.get(k), new[k]) for k in ("nodes", "transposes", "dispatches")),
                           both(old.get("moved"), new["moved"], "{:,.1f}"), str(entry.batch or "-"),
                           *(both(old.get(k), new[k], f) if k in new else "-"
                             for k, f in (("step_dispatches", "{:,.0f}"), ("arena", "{:,.1f}")))])
            try:
                agreements.append([name, f"{zoo.forward_error(tools[1], name, folder):.1e}",
                                   f"{zoo.training_error(tools[1], name, folder):.1e}" if entry.batch else "-"])
            except RuntimeError as failed:
                failures.append([name, "after", str(failed)])
            if options.no_times or not entry.batch:
                continue
            present = [(t, m) for t, m in zip(tools, models) if m]
            taken = times(*zip(*present), folder, name, options.rounds)
            row = [name, str(entry.batch)]
            for kind in ("forward", "step"):
                pair = [1000 * t for t in taken[kind]]
                pair = pair if len(pair) == 2 else [None, pair[0]]
                row += [both(*pair, "{:,.1f}"), ratio(*pair)]
            speeds.append(row)
            print(f"| {' | '.join(row)} |", file=sys.stderr, flush=True)
    table("Graphs (before → after; inference at batch 1, training with AdamW)",
          ["network", "nodes", "transposes", "dispatches", "moved, MiB", "training batch", "dispatches of a step",
           "arena of a step, MiB"], graphs)
    if speeds:
        table("Times of a batch (before → after)", ["network", "batch", "forward, ms", "times as fast",
                                                    "step, ms", "times as fast"], speeds)
    table("Differences of the version after from PyTorch", ["network", "forward", "loss of some steps"], agreements)
    if failures:
        table("What did not work", ["network", "version", "what graft said"], failures)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Networks that PyTorch exported, in two versions of graft: what each makes of them, and how fast that runs.

Usage: exported.py BEFORE AFTER [--rounds N] [--no-times] [NETWORK ...]    (two graft binaries; networks of tests/torch/zoo.py)

Prints Markdown. Times are of two CPU cores shared with others, so they are processor time (user and system, of all threads),
the difference of a run of many steps and a run of one, which leaves out starting and compiling; the versions take turns (A B A
B ...), and the median over the rounds counts. Wall-clock times of the same runs are in the last table.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../torch"))

import zoo  # noqa: E402  (exits with 77 where torch is missing)

# Seconds of processor time that the steps of one difference should take together: noise of a start is some 0.1 s.
ENOUGH = 1.0
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


def spent(tool, *arguments):
    """(processor time, wall-clock time) of a run, in seconds."""
    start = time.monotonic()
    child = subprocess.Popen([tool, *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise RuntimeError(f"graft {' '.join(map(str, arguments))} failed")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - start


class Timed:
    """Steps of training or batches of evaluation of one network by one version."""

    def __init__(self, tool, model, folder, name, kind):
        self.tool, self.kind, self.batch = tool, kind, zoo.NETWORKS[name].batch
        self.common = [kind, model, "--quiet"] if kind == "train" else [kind, model]
        self.folder, self.name = folder, name

    def run(self, steps):
        flags = zoo.data_flags(self.folder, self.name, self.batch, steps)[2]
        if self.kind == "train":
            flags += ["--steps", steps, "--no-shuffle", "--optimizer", "sgd", "--lr", "1e-4", "-o", f"{self.folder}/out.graft"]
        return spent(self.tool, *self.common, *flags)

    def each(self, more):
        """(processor, wall) of one step: the difference of 1 + more and 1."""
        one, many = self.run(1), self.run(1 + more)
        return tuple((b - a) / more for a, b in zip(one, many))


def times(tools, models, folder, name, kind, rounds):
    """[(processor, wall) of before, of after], medians over the rounds."""
    sides = [Timed(tool, model, folder, name, kind) for tool, model in zip(tools, models)]
    first = max(sides[-1].each(2)[0], 1e-3)
    more = max(2, min(200, round(ENOUGH / first)))
    taken = [[side.each(more) for side in sides] for _ in range(rounds)]
    return [tuple(statistics.median(t[i][k] for t in taken) for k in (0, 1)) for i in range(len(sides))]


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
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("networks", nargs="*")
    options = parser.parse_intermixed_args()
    tools = [os.path.abspath(t) for t in (options.before, options.after)]
    graphs, speeds, walls, agreements, failures = [], [], [], [], []
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
            speed, wall = [name, str(entry.batch)], [name]
            for kind in ("eval", "train"):
                present = [(t, m) for t, m in zip(tools, models) if m]
                taken = times(*zip(*present), folder, name, kind, options.rounds)
                pair = taken if len(taken) == 2 else [(None, None), taken[0]]
                for row, k in ((speed, 0), (wall, 1)):
                    milliseconds = [None if t[k] is None else 1000 * t[k] for t in pair]
                    row += [both(*milliseconds, "{:,.1f}"), ratio(*milliseconds)]
            speeds.append(speed)
            walls.append(wall)
    table("Graphs (before → after; inference at batch 1, training with AdamW)",
          ["network", "nodes", "transposes", "dispatches", "moved, MiB", "training batch", "dispatches of a step",
           "arena of a step, MiB"], graphs)
    if speeds:
        timed = ["forward, ms", "times as fast", "step, ms", "times as fast"]
        table("Processor time of a batch (before → after)", ["network", "batch", *timed], speeds)
        table("Wall-clock time of the same runs", ["network", *timed], walls)
    table("Differences of the version after from PyTorch", ["network", "forward", "loss of some steps"], agreements)
    if failures:
        table("What did not work", ["network", "version", "what graft said"], failures)
    return 0


if __name__ == "__main__":
    sys.exit(main())

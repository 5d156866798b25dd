"""What workers agree upon before a step, as a share of the step: python3 agreement.py GRAFT [STEPS]

LeNet in four micro-batches of 128 samples, by 2 and by 4 threads of one process, each worker's software driver on one
thread. Of worker 0 prints the medians of a step, of the hash of its parameters (the device's time for its dispatches,
which stand at the end of the update) and of the exchange, which holds the wait for whoever is later as well: its least is
the exchange alone.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

GRAFT = os.path.abspath(sys.argv[1])
STEPS = sys.argv[2] if len(sys.argv) > 2 else "30"
FLAGS = ["--data", "digits:?count=4096", "--batch", "128", "--accumulate", "4", "--lr", "1e-3", "--quiet"]


def phases(folder, workers):
    trace = os.path.join(folder, "trace.json")
    subprocess.run([GRAFT, "train", "lenet.graft", *FLAGS, "--steps", str(int(STEPS) + 5), "--workers", str(workers),
                    "--profile", trace, "--profile-steps", STEPS], cwd=folder, check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, env={**os.environ, "LP_NUM_THREADS": "1"})
    with open(trace, encoding="utf-8") as file:
        document = json.load(file)
    agree = sorted((event["ts"], event["dur"] * 1e-3) for event in document["traceEvents"] if event.get("name") == "agree")
    times = [taken for _, taken in agree]
    hashes = [(event["ts"] * 1e-3, event["dur"] * 1e-3) for event in document["traceEvents"]
              if event.get("name", "").startswith("hash") and "dur" in event]
    starts = [at * 1e-3 for at, _ in agree[::2]]
    steps = [b - a for a, b in zip(starts, starts[1:])]
    hashed = [sum(taken for at, taken in hashes if a <= at < b) for a, b in zip(starts, starts[1:])]
    return steps, hashed, times[1::2]


def main():
    with tempfile.TemporaryDirectory() as folder:
        for command in (["convert", "--example", "lenet", "-o", "lenet.onnx"], ["convert", "lenet.onnx", "-o", "lenet.graft"]):
            subprocess.run([GRAFT, *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
        for workers in (2, 4):
            steps, hashes, exchanges = phases(folder, workers)
            step, hashed = statistics.median(steps), statistics.median(hashes)
            print(f"{workers} workers: a step {step:.1f} ms, at best {min(steps):.1f} ms; hash {hashed:.2f} ms ({100 * hashed / step:.2f} %, at best "
                  f"{min(hashes):.2f} ms); exchange {statistics.median(exchanges):.2f} ms, at best {min(exchanges):.2f} ms")


if __name__ == "__main__":
    main()

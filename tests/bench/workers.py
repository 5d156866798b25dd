"""Several workers of `graft train` beside one, each on one thread of a software driver: python3 workers.py GRAFT [STEPS]

Prints steps a second of each way, the best of three rounds in which the ways take turns, and their ratio to one worker.
The steps' own times are taken from --metrics' file as it grows, without start-up. Uses as many cores as it has workers.
"""

import os
import subprocess
import sys
import tempfile
import time

GRAFT = os.path.abspath(sys.argv[1])
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 24
FIRST = 4  # steps before the clock starts: kernels are compiled in the first
FLAGS = ["--data", "digits:?count=4096", "--batch", "128", "--accumulate", "4", "--lr", "1e-3", "--quiet"]


def seconds(folder, workers, processes):
    """Of STEPS steps after the first."""
    rows = os.path.join(folder, "metrics.jsonl")
    if os.path.exists(rows):
        os.remove(rows)
    command = [GRAFT, "train", os.path.join(folder, "lenet.graft"), *FLAGS, "--steps", str(FIRST + STEPS)]
    environment = {**os.environ, "LP_NUM_THREADS": "1"}
    others = []
    if processes:
        environment.update({"GRAFT_WORLD_SIZE": str(workers), "GRAFT_MASTER_ADDR": "127.0.0.1"})
        others = [subprocess.Popen(command, env={**environment, "GRAFT_RANK": str(rank)}, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL) for rank in range(1, workers)]
        environment["GRAFT_RANK"] = "0"
    elif workers > 1:
        command += ["--workers", str(workers)]
    run = subprocess.Popen([*command, "--metrics", rows], env=environment, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
    begun = None
    while run.poll() is None:
        lines = 0
        if begun is None and os.path.exists(rows):
            with open(rows, encoding="utf-8") as file:
                lines = sum(1 for _ in file)
        if lines >= FIRST:
            begun = time.monotonic()
            done = lines
        time.sleep(0.002)
    taken = time.monotonic() - begun
    assert run.returncode == 0 and all(other.wait() == 0 for other in others)
    return taken * STEPS / (FIRST + STEPS - done)


def main():
    with tempfile.TemporaryDirectory() as folder:
        onnx, model = os.path.join(folder, "lenet.onnx"), os.path.join(folder, "lenet.graft")
        subprocess.run([GRAFT, "convert", "--example", "lenet", "-o", onnx], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([GRAFT, "convert", onnx, "-o", model], check=True, stdout=subprocess.DEVNULL)
        ways = {"one worker": (1, False), "2 threads": (2, False), "2 processes": (2, True)}
        best = dict.fromkeys(ways, float("inf"))
        for _ in range(3):
            for name, way in ways.items():
                best[name] = min(best[name], seconds(folder, *way))
        for name, taken in best.items():
            print(f"{name:12} {STEPS / taken:6.2f} steps/s  {best['one worker'] / taken:.2f} times one")


if __name__ == "__main__":
    main()

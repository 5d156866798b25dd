"""How long a run of three processes stands still when one of them is killed: python3 recovery.py GRAFT [KILLS]

Prints, for each kill, who was killed and the longest pause between two rows of --metrics' file around it, beside the median
of the run's steps; then the worst and the mean. Worker 0 is killed in turn with the others.
"""

import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time

GRAFT = os.path.abspath(sys.argv[1])
KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 9
FLAGS = ["--data", "digits:?count=4096", "--batch", "16", "--accumulate", "3", "--steps", "100000", "--quiet"]


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


def rows_of(path):
    if not os.path.exists(path):
        return 0
    with open(path, "rb") as file:
        return file.read().count(b"\n")


def pause(folder, victim, wait):
    """The longest pause after the kill, and a step's median before it."""
    rows = os.path.join(folder, "metrics.jsonl")
    if os.path.exists(rows):
        os.remove(rows)
    environment = {**os.environ, "GRAFT_WORLD_SIZE": "3", "GRAFT_MASTER_ADDR": "127.0.0.1", "GRAFT_MASTER_PORT": free_port()}
    command = [GRAFT, "train", os.path.join(folder, "lenet.graft"), *FLAGS, "--metrics", rows]
    run = [subprocess.Popen(command, env={**environment, "GRAFT_RANK": str(rank)}, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL) for rank in range(3)]
    seen, last, pauses, killed, begun = 0, time.monotonic(), [], None, None
    while killed is None or time.monotonic() < killed + 6:
        now, count = time.monotonic(), rows_of(rows)
        if count > seen:
            pauses.append((now, now - last))
            seen, last = count, now
        if begun is None and count >= 8:
            begun = now
        if killed is None and begun is not None and now >= begun + wait:
            killed = now
            run[victim].kill()
        time.sleep(0.001)
    for process in run:
        process.kill()
        process.wait()
    before = [length for when, length in pauses[4:] if when < killed]
    return max(length for when, length in pauses if when >= killed), statistics.median(before)


def main():
    noise = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        onnx, model = os.path.join(folder, "lenet.onnx"), os.path.join(folder, "lenet.graft")
        subprocess.run([GRAFT, "convert", "--example", "lenet", "-o", onnx], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([GRAFT, "convert", onnx, "-o", model], check=True, stdout=subprocess.DEVNULL)
        over = []
        for i in range(KILLS):
            longest, step = pause(folder, i % 3, noise.random())
            over.append(longest - step)
            print(f"worker {i % 3} killed: {longest:.3f} s without a step, which take {step:.3f} s", flush=True)
        print(f"beside one step: {statistics.mean(over):.3f} s in the mean, {max(over):.3f} s at most")


if __name__ == "__main__":
    main()

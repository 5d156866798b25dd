"""How long until a worker that is stopped, or cut off, is named: python3 silence.py GRAFT [TIMES] (as root, Linux)

Three processes, each in a network namespace of its own (links.py), --worker-timeout 2. At a random instant one of them gets
SIGSTOP, or its link goes down; the others' first word of it is timed. Which one it is goes round, worker 0 among them.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from links import machines

GRAFT = os.path.abspath(sys.argv[1])
TIMES = int(sys.argv[2]) if len(sys.argv) > 2 else 6
FLAGS = ["--data", "digits:?count=4096", "--batch", "16", "--accumulate", "3", "--steps", "100000", "--quiet", "--worker-timeout", "2"]
NAMED = ("has said nothing", "did not come to an exchange in time", "is gone")


def named_after(folder, names, victim, cuts, wait):
    rows = os.path.join(folder, "metrics.jsonl")
    if os.path.exists(rows):
        os.remove(rows)
    environment = {**os.environ, "GRAFT_WORLD_SIZE": "3", "GRAFT_MASTER_ADDR": "10.97.0.1", "GRAFT_SECRET": "silence"}
    command = [GRAFT, "train", os.path.join(folder, "lenet.graft"), *FLAGS, "--metrics", rows]
    run = [subprocess.Popen(["ip", "netns", "exec", where, *command], env={**environment, "GRAFT_RANK": str(rank)},
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for rank, where in enumerate(names)]
    heard = []

    def listen(process):
        for line in process.stderr:
            if any(words in line for words in NAMED):
                heard.append((time.monotonic(), line.strip()))

    for rank, process in enumerate(run):
        if rank != victim:
            threading.Thread(target=listen, args=(process,), daemon=True).start()
    while not os.path.exists(rows) or os.path.getsize(rows) == 0:
        time.sleep(0.01)
    time.sleep(1 + wait)
    before = time.monotonic()
    if cuts:
        subprocess.run(["ip", "link", "set", f"gv{victim}", "down"], check=True)
    else:
        run[victim].send_signal(signal.SIGSTOP)
    while len(heard) < 2 and time.monotonic() < before + 30:
        time.sleep(0.01)
    for process in run:
        process.kill()
        process.wait()
    if cuts:
        subprocess.run(["ip", "link", "set", f"gv{victim}", "up"], check=True)
    return [when - before for when, _ in heard[:2]], {words for _, words in heard[:2]}


def main():
    noise = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        onnx, model = os.path.join(folder, "lenet.onnx"), os.path.join(folder, "lenet.graft")
        subprocess.run([GRAFT, "convert", "--example", "lenet", "-o", onnx], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([GRAFT, "convert", onnx, "-o", model], check=True, stdout=subprocess.DEVNULL)
        for cuts in (False, True):
            longest = 0
            for i in range(TIMES):
                with machines(3, "10gbit") as names:
                    seconds, words = named_after(folder, names, i % 3, cuts, noise.random())
                longest = max([longest, *seconds])
                print(f"worker {i % 3} {'cut off' if cuts else 'stopped'}: {', '.join(f'{s:.2f} s' for s in seconds)}: {' '.join(sorted(words))}",
                      flush=True)
            print(f"{'cut off' if cuts else 'stopped'}: named after {longest:.2f} s at most")


if __name__ == "__main__":
    main()

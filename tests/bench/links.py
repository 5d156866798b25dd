"""What share of a step is work, measured by network: python3 links.py EXCHANGE_BENCH [--speedup N] [--slots N] (as root, Linux)

Up to four workers, each in a network namespace of its own behind a link of so many bits a second both ways (veth and tbf),
take steps of the networks of scaling.py by exchange_bench. What a micro-batch takes is slept: a device that computes without
the host's cores. Host work (copies, checksums, sums) is real, and all workers share this machine's cores for it, which machines
of their own would not.
"""

import argparse
import contextlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from scaling import NETWORKS

RATES = ("1gbit", "10gbit")


def run(*words):
    subprocess.run(list(map(str, words)), check=True)


@contextlib.contextmanager
def machines(count, rate):
    names = [f"graft{i}" for i in range(count)]
    try:
        run("ip", "link", "add", "graftbr", "type", "bridge")
        run("ip", "link", "set", "graftbr", "up")
        for i, name in enumerate(names):
            run("ip", "netns", "add", name)
            run("ip", "link", "add", f"gv{i}", "type", "veth", "peer", "name", f"gw{i}", "netns", name)
            run("ip", "link", "set", f"gv{i}", "master", "graftbr", "up")
            run("ip", "-n", name, "link", "set", "lo", "up")
            run("ip", "-n", name, "addr", "add", f"10.97.0.{i + 1}/24", "dev", f"gw{i}")
            run("ip", "-n", name, "link", "set", f"gw{i}", "up")
            shape = ("root", "tbf", "rate", rate, "burst", "4mb", "latency", "50ms")
            run("tc", "qdisc", "add", "dev", f"gv{i}", *shape)             # to it
            run("tc", "-n", name, "qdisc", "add", "dev", f"gw{i}", *shape)  # from it
        yield names
    finally:
        for i, name in enumerate(names):
            subprocess.run(["ip", "link", "del", f"gv{i}"], stderr=subprocess.DEVNULL, check=False)
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)
        subprocess.run(["ip", "link", "del", "graftbr"], stderr=subprocess.DEVNULL, check=False)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench")
    parser.add_argument("--speedup", type=float, default=1)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--steps", type=int, default=3)
    options = parser.parse_args()
    bench = os.path.abspath(options.bench)
    print("| | network | 2 | 3 | 4 |\n|---|---|---|---|---|")
    for name, seconds, size in NETWORKS:
        for rate in RATES:
            shares = []
            for count in (2, 3, 4):
                with machines(count, rate) as names:
                    started = [subprocess.Popen(
                        ["ip", "netns", "exec", where, bench, "--step", *map(str, (
                            rank, count, "10.97.0.1", size, options.slots, seconds / options.speedup, options.steps))],
                        stdout=subprocess.PIPE, text=True) for rank, where in enumerate(names)]
                    said = [process.communicate()[0] for process in started]
                    if any(process.returncode for process in started):
                        sys.exit("a worker failed")
                    shares.append(said[0].split()[-2] + " %")
            print(f"| {name} | {rate} |", " | ".join(shares), "|", flush=True)


if __name__ == "__main__":
    main()

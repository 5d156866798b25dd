"""How much of N workers' time is work, by network: a simulation from measured costs. python3 scaling.py [NAME=VALUE ...]

Prints, for each network and number of workers, the share of a step that is spent computing, where every worker has SLOTS
micro-batches (so that N workers do N times the work of one), and what it was computed from.

The model, step by step as graft does it:
  agreement      one exchange of a few bytes
  slots          by pieces of PIECE elements: every worker sends each other one 1/N of the piece. While the next slot is
                 computed, which hides as much of it as that takes; the last one shows
  sums           every worker adds its 1/N of all slots up, and sends each other the sum of a piece with the next piece of
                 the last slot; one exchange more for that of the last, with metrics and running statistics
An exchange is one round, which costs LATENCY and MESSAGE for each other worker, and the bytes go out at the network's
bandwidth while as many come in. Each byte that is sent or received is copied and summed up at HOST bytes a second, each byte that is added at ADD bytes a second.

LATENCY, MESSAGE, HOST and ADD are assumptions of a machine that has time for it. On two cores that others kept busy,
exchange_bench showed 0.5 to 2 ms a round between two processes and 3 to 8 ms among four (docs/performance.md): measure
there, and give what you find. links.py measures up to four workers behind links of such bandwidths.
To 256 workers this is arithmetic, not measurement. Step times are of lavapipe on two cores; SPEEDUP=100 asks what
a device as many times faster would see.
"""

import math
import sys

COSTS = {"LATENCY": 1e-3, "MESSAGE": 50e-6, "HOST": 2e9, "ADD": 2e9, "PIECE": 1 << 22, "SPEEDUP": 1, "SLOTS": 1}
# Name, seconds of a micro-batch's step (docs/performance.md), bytes of gradients.
NETWORKS = (("ResNet-18, batch 8", 0.545, 4 * 11_689_512), ("135M LoRA (r 8), 128 tokens", 1.88, 4 * 921_600),
            ("135M full, 128 tokens", 3.22, 4 * 134_515_008))
BANDWIDTHS = (("1 Gbit/s", 1e9 / 8), ("10 Gbit/s", 1e10 / 8), ("100 Gbit/s", 1e11 / 8))
WORKERS = (2, 4, 8, 16, 32, 64, 128, 256)


def exchange(costs, workers, bandwidth, sent):
    """Of so many bytes from every worker to all others together, and as many back."""
    return costs["LATENCY"] + (workers - 1) * costs["MESSAGE"] + sent / bandwidth + 2 * sent / costs["HOST"]


def overhead(costs, workers, bandwidth, gradients, computing):
    """Seconds of a step that one worker alone would not spend; a slot is computed in `computing` seconds."""
    agreement = exchange(costs, workers, bandwidth, 256 * (workers - 1))
    pieces = math.ceil(gradients / 4 / costs["PIECE"])
    sent = gradients * (workers - 1) / workers
    once = pieces * exchange(costs, workers, bandwidth, sent / pieces)
    late = (costs["SLOTS"] - 1) * max(0, once - computing)
    last = (pieces + 1) * exchange(costs, workers, bandwidth, 2 * sent / (pieces + 1))
    return agreement + late + last + costs["SLOTS"] * gradients / costs["ADD"]


def main():
    costs = dict(COSTS)
    for word in sys.argv[1:]:
        name, _, value = word.partition("=")
        if name not in costs:
            sys.exit(f"usage: scaling.py [NAME=VALUE ...] with {', '.join(costs)}")
        costs[name] = float(value)
    print(", ".join(f"{name} {value:g}" for name, value in costs.items()))
    print("| | |", " | ".join(str(n) for n in WORKERS), "|\n|---|---|" + "---|" * len(WORKERS))
    for name, step, gradients in NETWORKS:
        step /= costs["SPEEDUP"]
        for network, bandwidth in BANDWIDTHS:
            work = costs["SLOTS"] * step
            shares = (work / (work + overhead(costs, n, bandwidth, gradients, step)) for n in WORKERS)
            print(f"| {name} | {network} |", " | ".join(f"{100 * share:.0f} %" for share in shares), "|")


if __name__ == "__main__":
    main()

"""Texts at once: tokens per second of `graft generate --parallel N` for several N, in wall and in processor time.

Of each N two runs are compared, with few and with many tokens per text, so that opening the model and compiling kernels
do not count; the runs of all N take turns, and the middle of the rounds is told.

Usage: batching.py GRAFT MODEL [--parallel 1,2,4,8] [--texts 8] [--tokens 16,64] [--rounds 3] [--prompt TEXT | --ids N] [FLAGS ...]
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time


def cost(command):
    """Wall and processor seconds of a command, and its JSON."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    out = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, json.loads(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graft")
    parser.add_argument("model")
    parser.add_argument("--parallel", default="1,2,4,8")
    parser.add_argument("--texts", type=int, default=8)
    parser.add_argument("--tokens", default="16,64")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--prompt", default="Once upon a time there was a")
    parser.add_argument("--ids", type=int, default=0, help="prompts of 16 made-up token ids below this, for models without a tokenizer")
    options, flags = parser.parse_known_args()
    few, many = (int(count) for count in options.tokens.split(","))
    counts = [int(count) for count in options.parallel.split(",")]
    wall, processor, agree, memory = ({count: [] for count in counts} for _ in range(4))
    with tempfile.TemporaryDirectory() as folder:
        prompts = os.path.join(folder, "prompts.jsonl")
        with open(prompts, "w") as file:
            for i in range(options.texts):
                made_up = [(7919 * (k + 1) + 31 * i) % options.ids for k in range(16)] if options.ids else []
                print(json.dumps(made_up or f"{options.prompt} {chr(97 + i % 26)}"), file=file)

        def run(count, tokens):
            return cost([options.graft, "generate", options.model, "--prompts", prompts, "--parallel", str(count), "--json",
                         "--max-tokens", str(tokens), *flags])

        for count in counts:
            run(count, few)  # the driver's cache
        for _ in range(options.rounds):
            for count in counts:
                one, other = run(count, few), run(count, many)
                made = [sum(len(text["tokens"]) for text in got[2]["texts"]) for got in (one, other)]
                wall[count].append((other[0] - one[0]) / (made[1] - made[0]))
                processor[count].append((other[1] - one[1]) / (made[1] - made[0]))
                agree[count].append(other[2]["bits_of_one"])
                memory[count].append(other[2]["device_bytes"])
    base = {name: statistics.median(costs[counts[0]]) for name, costs in (("wall", wall), ("processor", processor))}
    print(f"{'N':>4} {'tokens/s':>9} {'ratio':>6} {'tokens/s of processor time':>27} {'ratio':>6} {'bits of one':>12} {'MiB':>8}")
    for count in counts:
        w, p = statistics.median(wall[count]), statistics.median(processor[count])
        print(f"{count:>4} {1 / w:9.1f} {base['wall'] / w:6.2f} {1 / p:27.1f} {base['processor'] / p:6.2f} "
              f"{str(all(agree[count])):>12} {memory[count][0] / 2**20:8.1f}")


if __name__ == "__main__":
    main()

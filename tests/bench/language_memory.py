"""Prints what adapters (rank 8 on q, k, v, o; AdamW; one sample) on language models take, as Markdown tables:

    python3 tests/bench/language_memory.py GRAFT [CONFIG.json ...]

GRAFT is the command line tool. Weights need not be there: `graft plan` reads the config.json.
"""

import glob
import json
import os
import re
import subprocess
import sys

SHAPES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shapes")
LORA = "r=8,alpha=16,targets=q_proj|k_proj|v_proj|o_proj"
MB = 1e6


def run(graft, *flags):
    return subprocess.run([graft, "plan", *map(str, flags)], capture_output=True, text=True)


def plan(*flags):
    done = run(*flags, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def least_budget(*flags):
    return int(re.search(r"smallest budget that works is (\d+)", run(*flags, "--budget", 1).stderr).group(1))


def row(flags, name, seq, base):
    free = plan(*flags)
    memory, weights = free["memory"], free["memory"]["weights"]
    tight = plan(*flags, "--budget", free["curve"]["points"][-1]["bytes"])
    assert tight["memory"]["weights"] == weights
    step = tight["plans"][0]
    more = 100 * step["recomputed_flops"] / (step["flops"] - step["recomputed_flops"])
    head = max(n["scratch_bytes"] for n in free["plans"][0]["nodes"] if n["op"].startswith("linear_cross_entropy"))
    cells = [name, seq, base]
    cells += [f"{memory[kind] / MB:,.1f}" for kind in ("weights", "parameters", "optimizer", "activations", "workspace", "staging")]
    cells += [f"{(free['total'] - weights) / MB:,.1f}", f"{(tight['total'] - weights) / MB:,.1f}, +{more:.0f} %",
              f"{least_budget(*flags) / MB:,.1f}", f"{head / MB:.1f}"]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def main():
    graft, *configs = sys.argv[1:]
    print("| | tokens | base | weights | adapters | Adam | activations | workspace | staging | beyond the weights "
          "| least by a budget, FLOPs | weights streamed | loss and logits |")
    print("|" + "---|" * 13)
    for config in configs or sorted(glob.glob(SHAPES + "/*.json")):
        name = os.path.basename(config).removesuffix(".json")
        for base, quantize in (("f32", []), ("q8_0", ["--quantize", "q8_0"])):
            for seq in (128, 512, 2048):
                row([graft, config, *quantize, "--lora", LORA, "--seq", seq, "--batch", 1], name, seq, base)


if __name__ == "__main__":
    main()

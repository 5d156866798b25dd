"""How well the model of time (graft plan --time) ranks what is measured: kernels and shapes, and variants of one kernel.

Usage: time_model.py GRAFT [--repeat N] [--device NAME] [--clock] [--json FILE]

Kernels and shapes are those of `graft bench ops`; variants those that `graft bench ops --tune` measures, of products and
convolutions that compile and run in a few minutes on software. Times are processor time on a CPU device of a shared
machine, unless --clock is given. Prints Spearman's coefficient of rank correlation of all of them, of each list, within
the variants of one problem (mean and least), and what it would cost to take the model's choice instead of the fastest,
beside what the choice that graft makes costs.
"""
import argparse
import json
import subprocess
import statistics

# Those with which the model's constants were found are marked: the others are told apart below.
FITTED = ["matmul NN 256", "matmul NT 64x500", "matmul NN 128x576", "conv 5x5 64x28", "conv 3x3 1x14", "conv 3x3 1x7"]
OTHERS = ["matmul NT 128x1536", "matmul TN 1536", "matmul NT 4x1024", "matmul NN 3136", "matmul TN 128x128",
          "conv 3x3 stride 2 1x28", "conv 1x1 4x28", "conv 1x1 stride 2 1x28", "conv_grad_data 3x3 stride 2 1x28",
          "conv_grad_weight 1x1 stride 2 1x28", "conv_grad_weight 5x5 64x28"]


def ranks(numbers):
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    out = [0.0] * len(numbers)
    first = 0
    while first < len(order):
        end = first
        while end < len(order) and numbers[order[end]] == numbers[order[first]]:
            end += 1
        for i in order[first:end]:
            out[i] = (first + end - 1) / 2
        first = end
    return out


def spearman(pairs):
    """Of (measured, estimated); None where all of one list are equal."""
    x, y = (ranks(list(column)) for column in zip(*pairs))
    mean = (len(pairs) - 1) / 2
    both = sum((a - mean) * (b - mean) for a, b in zip(x, y))
    squares = sum((a - mean) ** 2 for a in x) * sum((b - mean) ** 2 for b in y)
    return both / squares ** 0.5 if squares > 0 else None


def tell(what, pairs):
    ratios = sorted(measured / estimated for measured, estimated in pairs)
    print(f"{what:46} {len(pairs):5} {spearman(pairs):10.3f} {ratios[len(ratios) // 4]:8.2f} {ratios[len(ratios) * 3 // 4]:8.2f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("graft")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--device", default="")
    parser.add_argument("--clock", action="store_true", help="wall clock and the device's own, not processor time")
    parser.add_argument("--json", default="", help="write everything that was measured to this file")
    options = parser.parse_args()
    common = ["--json", "--cache", "none", "--repeat", str(options.repeat)] + ([] if options.clock else ["--processor-time"])
    if options.device:
        common += ["--device", options.device]

    def bench(*arguments):
        return json.loads(subprocess.run([options.graft, "bench", "ops", *arguments, *common], check=True,
                                         stdout=subprocess.PIPE).stdout)

    ops = bench("--alone")
    cases = [(case["median_s"], case["estimated_s"]) for case in ops["cases"]]

    def tuned(filters):
        return bench("--tune", *(part for name in filters for part in ("--filter", name)))["choices"]

    fitted = tuned(FITTED)
    seen = {choice["key"] for choice in fitted}
    others = [choice for choice in tuned(OTHERS) if choice["key"] not in seen]
    print(f'{ops["device"]}, repeat {options.repeat}, {"clock" if options.clock else "processor time"}\n')
    print(f'{"":46} {"number":>5} {"rank corr.":>10} {"measured / estimated: middle half":>17}')
    tell("kernels and shapes, the usual variants", cases)
    points = {}
    for title, choices in (("variants, problems the model was fitted to", fitted), ("variants, other problems", others)):
        points[title] = [(m["seconds"], m["estimated_s"]) for choice in choices for m in choice["measured"]]
        tell(title, points[title])
    tell("all", cases + [pair for some in points.values() for pair in some])

    print("\nWithin the variants of one problem, of those that the model tells apart:")
    for title, choices in (("fitted", fitted), ("other", others)):
        within, by_model, by_rules = [], [], []
        for choice in choices:
            rows = choice["measured"]
            one = spearman([(m["seconds"], m["estimated_s"]) for m in rows]) if len(rows) > 2 else None
            if one is None or not choice["key"].startswith("gemm "):
                continue
            fastest = min(m["seconds"] for m in rows)
            within.append(one)
            by_model.append(min(rows, key=lambda m: m["estimated_s"])["seconds"] / fastest)
            by_rules.append(choice["usual_seconds"] / fastest)
        print(f"  {title} problems: {len(within)}, rank correlation {statistics.mean(within):.3f} (least {min(within):.3f}); the "
              f"model's choice takes {statistics.geometric_mean(by_model):.3f} times as long as the fastest (most "
              f"{max(by_model):.2f}), graft's choice {statistics.geometric_mean(by_rules):.3f} (most {max(by_rules):.2f})")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"ops": ops, "fitted": fitted, "other": others}, file, indent=1)


if __name__ == "__main__":
    main()

"""The figures that tests/bench/gpu.sh left in a folder, as tables: gpu_summary.py FOLDER."""

import json
import os
import sys


def load(folder, name):
    with open(os.path.join(folder, name)) as file:
        return json.load(file)


def present(folder, *names):
    """Those that were written; an empty one is of a part that failed."""
    return [n for n in names if os.path.exists(os.path.join(folder, n)) and os.path.getsize(os.path.join(folder, n))]


def main():
    folder = sys.argv[1]
    for name in present(folder, "device.json"):
        print(f"\n{name}")
        for what, value in load(folder, name).items():
            print(f"{what:50} {value if isinstance(value, str) else format(value, '10.2f')}")
    for name in present(folder, "ops.json", "ops-rounded.json"):
        out = load(folder, name)
        copied = out["figures"].get("copy_gbps")
        print(f"\n{name}: {out['device']}, {out['driver']}")
        for case in out["cases"]:
            share = f"{100 * case['gbps'] / copied:5.1f}% of copying" if copied else ""
            print(f"{case['name']:50} {1e3 * case['median_s']:10.3f} ms {case['gflops']:10.1f} GFLOP/s "
                  f"{case['gbps']:8.1f} GB/s {share}")
    compared = [f"compare-{part}{kind}.json" for part in ("kernels", "steps") for kind in ("", "-rounded")]
    for name in present(folder, *compared):
        out = load(folder, name)
        print(f"\n{name}: beside {out['rival'] or 'nothing'}")
        for r in out["rows"]:
            if r["times"] is None:
                print(f"{r['what']:50} {r['beside']}: {r.get('why', 'no figure')}")
                continue
            print(f"{r['what']:50} {r['graft']:12.1f} {r['unit']:9} {r['other']:12.1f} {r['times']:6.2f}x  {r['beside']}")


if __name__ == "__main__":
    main()

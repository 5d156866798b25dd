"""One worker's bits by several, network by network: python3 same_bits.py GRAFT [--only PART-OF-A-NAME] [WORKERS ...]

Trains each network alone, then by so many threads (1 2 3 4 6 where nothing is said) and by as many processes over
libgraft_gloo on loopback, and compares the files that they write. Then one run that stops at 4 workers and goes on with
2 and with 3. Prints a line for each network; exit status 1 where a file differs.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(TESTS, "cli"))
import cli  # noqa: E402
import small_network  # noqa: E402
from processes import free_port  # noqa: E402

GRAFT = os.path.abspath(sys.argv[1])
ONLY = sys.argv[3] if sys.argv[2:3] == ["--only"] else ""
NUMBERS = [int(n) for n in sys.argv[4 if ONLY else 2:]] or [1, 2, 3, 4, 6]
IMAGES = ["--batch", "4", "--accumulate", "4", "--epochs", "2"]  # the last batch is short
LARGE = ["--data", "npy:x.npy,y.npy", *IMAGES]
TEXTS = ["--data", "jsonl:texts.jsonl", "--seq", "16", "--batch", "1", "--accumulate", "4", "--epochs", "2", "--lr", "1e-2"]
CASES = {
    "MLP": ["mlp.graft", *LARGE],
    "LeNet": ["lenet.graft", *LARGE],
    "LeNet, clipped": ["lenet.graft", *LARGE, "--clip-norm", "0.1"],
    "LeNet, f16 with overflow": ["lenet.graft", *LARGE, "--precision", "f16", "--loss-scale", "1e8"],
    "residual blocks, batch norm, dropout": ["small.graft", "--data", "npy:small.npy,small_y.npy", *IMAGES],
    "language model, ragged texts": ["tiny.graft", *TEXTS],
    "its adapters with dropout": ["tiny.graft", *TEXTS, "--lora", "r=2,alpha=4,dropout=0.1"],
}


def graft(folder, *arguments, **environment):
    return subprocess.Popen([GRAFT, *map(str, arguments)], cwd=folder, env={**os.environ, **environment},
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def ended(process):
    errors = process.communicate()[1]
    if process.returncode != 0:
        sys.exit(errors)


def make_models(folder):
    for name in ("mlp", "lenet"):
        ended(graft(folder, "convert", "--example", name, "-o", f"{name}.onnx"))
        ended(graft(folder, "convert", f"{name}.onnx", "-o", f"{name}.graft"))
    small_network.write(os.path.join(folder, "small.onnx"))
    ended(graft(folder, "convert", "small.onnx", "-o", "small.graft"))
    shutil.copy(os.path.join(TESTS, "fuzz/corpus/gguf/llama"), os.path.join(folder, "tiny.gguf"))
    ended(graft(folder, "convert", "tiny.gguf", "-o", "tiny.graft"))
    path = lambda name: os.path.join(folder, name)
    cli.save_npy(path("x.npy"), cli.random_floats(90 * 784, 1), (90, 1, 28, 28))
    cli.save_npy(path("y.npy"), [i % 10 for i in range(90)], (90,), "i")
    cli.save_npy(path("small.npy"), cli.random_floats(30 * 64, 5), (30, 1, 8, 8))
    cli.save_npy(path("small_y.npy"), [i % 4 for i in range(30)], (30,), "i")
    with open(path("texts.jsonl"), "w", encoding="utf-8") as file:
        for i in range(11):
            file.write(json.dumps({"text": "ab" + "b" * (i * 3 % 7)}) + "\n")


def hash_of(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def trained(folder, flags, workers=None, processes=False):
    common = ["train", *flags, "--seed", "3", "--quiet", "-o", "out.graft"]
    if not processes:
        ended(graft(folder, *common, *(["--workers", workers] if workers else [])))
    else:
        port = str(free_port())
        runs = [graft(folder, *common, GRAFT_RANK=str(rank), GRAFT_WORLD_SIZE=str(workers), GRAFT_MASTER_PORT=port,
                      GRAFT_MASTER_ADDR="127.0.0.1") for rank in range(workers)]
        for run in runs:
            ended(run)
    return hash_of(folder, "out.graft")


def resumed(folder, numbers):
    """LeNet in three parts of five, four and three steps."""
    flags = ["lenet.graft", *LARGE[:-2], "--checkpoint", "run"]  # without --epochs
    for steps, workers in zip((5, 9, 12), numbers):
        if steps == 5:
            shutil.rmtree(os.path.join(folder, "run"), ignore_errors=True)
        wanted = trained(folder, [*flags, "--steps", str(steps), *(["--resume"] if steps > 5 else [])], workers)
    return wanted


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        make_models(folder)
        for name, flags in CASES.items():
            if ONLY not in name:
                continue
            alone = trained(folder, flags)
            same = [(workers, processes) for processes in (False, True) for workers in NUMBERS
                    if trained(folder, flags, workers, processes) == alone]
            failed += 2 * len(NUMBERS) - len(same)
            print(f"{name:38} {alone[:16]}  {len(same)} of {2 * len(NUMBERS)} the same", flush=True)
        if ONLY not in "resumed":
            return 1 if failed else 0
        same = resumed(folder, (4, 2, 3)) == resumed(folder, (None, None, None))
        failed += not same
        print("LeNet, stopped at 4, resumed at 2 and 3:", "the same" if same else "another file")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

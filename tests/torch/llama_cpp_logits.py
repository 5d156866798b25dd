"""Exports language models of each family as GGUF files and has llama.cpp compute their tokens' probabilities, as npm's
node-llama-cpp runs it.

Usage: NODE_LLAMA_CPP=FOLDER llama_cpp_logits.py GRAFT [CASE ...]     (run with a Python that has torch)

FOLDER is where `npm install --ignore-scripts node-llama-cpp` ran. Exit status: 0 all agree, 1 some do not, 77 torch, node or
that folder is not there.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import decoders
import parity
from decoder_parity import CASES, MORE, NO_GGUF, like, run_logits, write_folder
from llama_cpp_parity import write_tokenizer
from parity import Report, graft

FOLDER = os.environ.get("NODE_LLAMA_CPP", "")
ROWS, TOKENS = 258, 20
# Of logarithms of probabilities above 1e-4: llama.cpp's cache holds f16 numbers, and its gelu is a table of them.
TOLERANCE = 1e-2
FAMILIES = {**{case: CASES[case] for case in ("llama", "qwen3", "olmo2")},
            **{case: config for case, config in MORE.items() if case not in NO_GGUF}}


class LlamaCpp:
    def __init__(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "llama_cpp_logits.mjs")
        self.process = subprocess.Popen(["node", script, FOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def probabilities(self, path, tokens):
        self.process.stdin.write(json.dumps({"model": path, "tokens": tokens}) + "\n")
        self.process.stdin.flush()
        rows = json.loads(self.process.stdout.readline())
        if isinstance(rows, dict):
            raise RuntimeError(f"llama.cpp: {rows['error']}")
        out = np.zeros((len(rows), ROWS))
        for place, row in enumerate(rows):
            for token, share in row:
                out[place, token] = share
        return out

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)


def check(report, case, config, llama):
    config = like(config, vocab_size=ROWS, max_position_embeddings=64)
    weights = decoders.random_weights(config, seed=11)
    tokens = torch.randint(0, ROWS - 2, (1, TOKENS))
    with tempfile.TemporaryDirectory() as folder:
        write_folder(f"{folder}/model", config, weights)
        write_tokenizer(f"{folder}/model")
        graft("convert", f"{folder}/model", "-o", f"{folder}/model.graft")
        graft("export", f"{folder}/model.graft", "-o", f"{folder}/model.gguf")
        ours = torch.from_numpy(run_logits(f"{folder}/model.graft", tokens, folder))[0].double().softmax(-1).numpy()
        theirs = llama.probabilities(f"{folder}/model.gguf", tokens[0].tolist())
    likely = np.maximum(ours, theirs) > 1e-4
    worst = np.abs(np.log(np.maximum(ours, 1e-12)) - np.log(np.maximum(theirs, 1e-12)))[likely].max()
    report.check(case, f"{int(likely.sum())} logarithms of probabilities", float(worst), TOLERANCE)


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    if not FOLDER or not shutil.which("node"):
        print("skipped: NODE_LLAMA_CPP names no folder, or node is not there")
        return 77
    report, llama = Report(), LlamaCpp()
    torch.manual_seed(0)
    for case, config in FAMILIES.items():
        if len(sys.argv) == 2 or case in sys.argv[2:]:
            check(report, case, config, llama)
    llama.end()
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Exports an encoder as a GGUF file and has llama.cpp embed texts with it: the vectors must be those of `graft embed`, with
the pooling that the file says.

Usage: [LLAMA_CPP_ROOT=DIR] llama_cpp_embeddings.py GRAFT     (run with a Python that has torch)

llama-server comes from PATH or, with LLAMA_CPP_ROOT, from that root by chroot, as in llama_cpp_parity.py; it listens on a free
port of this machine. Exit status: 0 all agree, 1 some do not, 77 torch or llama.cpp is not there.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import encoders
import parity
from decoder_parity import like, write_folder
from encoder_parity import BERT, write_modules
from parity import Report, graft

ROOT = os.environ.get("LLAMA_CPP_ROOT", "")
# llama.cpp takes gelu's approximation by tanh for BERT, from a table of f16 numbers.
TOLERANCE = 1e-3
TEXTS = ["hello world", "a", "The quick, brown fox jumps"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
VOCABULARY = SPECIAL + list(LETTERS) + ["##" + letter for letter in LETTERS] + [",", "."]


def write_tokenizer(folder):
    ids = {token: i for i, token in enumerate(VOCABULARY)}
    around = {name: {"id": name, "ids": [ids[name]], "tokens": [name]} for name in ("[CLS]", "[SEP]")}
    single = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
              {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    tokenizer = {"added_tokens": [{"id": i, "content": name, "special": True} for i, name in enumerate(SPECIAL)],
                 "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                                "strip_accents": None, "lowercase": True},
                 "pre_tokenizer": {"type": "BertPreTokenizer"},
                 "post_processor": {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": around},
                 "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
                 "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                           "max_input_chars_per_word": 100, "vocab": ids}}
    with open(f"{folder}/tokenizer.json", "w") as out:
        json.dump(tokenizer, out)


def own_vectors(path, *flags):
    lines = graft("embed", path, *flags, *(part for text in TEXTS for part in ("--text", text))).splitlines()
    return np.array([json.loads(line)["embedding"] for line in lines])


def llama_vectors(path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = (["chroot", ROOT] if ROOT else []) + ["llama-server", "-m", path[len(ROOT):], "--embedding", "--host",
                                                   "127.0.0.1", "--port", str(port), "-t", "2", "-c", "64", "-b", "64"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/embeddings", json.dumps({"input": TEXTS}).encode(),
                                     {"Content-Type": "application/json"})
    try:
        for _ in range(120):
            time.sleep(0.5)
            try:
                with urllib.request.urlopen(request, timeout=30) as answer:
                    return np.array([row["embedding"] for row in json.load(answer)["data"]])
            except (urllib.error.URLError, ConnectionError):
                if server.poll() is not None:
                    break
        raise RuntimeError("llama-server gave no answer.")
    finally:
        server.terminate()
        server.wait()


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    if not (os.path.exists(f"{ROOT}/usr/bin/llama-server") if ROOT else shutil.which("llama-server")):
        print("skipped: there is no llama-server")
        return 77
    report = Report()
    config = like(BERT, hidden_size=64, intermediate_size=96, vocab_size=len(VOCABULARY), max_position_embeddings=64)
    weights = encoders.random_weights(config, seed=3, alone=True)
    for name, tensor in weights.items():
        if tensor.dim() == 2 and "embeddings" not in name:
            tensor.mul_(0.3)
    for modes in ("mean_tokens", "cls_token"):
        with tempfile.TemporaryDirectory(dir=f"{ROOT}/tmp" if ROOT else None) as folder:
            os.chmod(folder, 0o755)
            write_folder(f"{folder}/model", config, weights)
            write_tokenizer(f"{folder}/model")
            write_modules(f"{folder}/model", [modes], True)
            graft("convert", f"{folder}/model", "-o", f"{folder}/a.graft")
            graft("export", f"{folder}/a.graft", "-o", f"{folder}/a.gguf")
            ours = own_vectors(f"{folder}/a.graft")
            graft("convert", f"{folder}/a.gguf", "-o", f"{folder}/b.graft")
            again = own_vectors(f"{folder}/b.graft", "--normalize")
            report.check("bert", f"{modes} of the GGUF file", float(np.abs(again - ours).max()), 1e-6)
            report.check("bert", f"{modes} by llama.cpp", float(np.abs(llama_vectors(f"{folder}/a.gguf") - ours).max()), TOLERANCE)
    return 1 if report.failures else 0


if __name__ == "__main__":
    with torch.no_grad():
        sys.exit(main())

"""Has graft and llama.cpp compute an importance matrix of the same model and text, for each family of language models and
for quantized matrices: the same matrices and counts, sums that agree, and files that each takes from the other.

Usage: [LLAMA_CPP_ROOT=DIR] llama_cpp_imatrix.py GRAFT [CASE ...]     (run with a Python that has torch)

llama-imatrix and llama-quantize are found as llama_cpp_parity.py finds its programs. Exit status: 0 all agree, 1 some do
not, 77 torch or llama.cpp is not there.
"""

import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch  # the models are made with it
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import parity
from llama_cpp_parity import CONTEXT, FAMILIES, GELU, ROOT, prepared, wider
from parity import Report, graft

# Of a sum of squares, beside itself. Both compute in f32: llama.cpp adds up in f32. For the others see llama_cpp_parity.py;
# a column's sum may be small beside the numbers that it comes from.
FLOATS, TABLES, BLOCKS = 1e-5, 1e-2, 1e-1


def read_gguf(path):
    """Metadata, and tensors of f32 numbers by name."""
    with open(path, "rb") as file:
        data = file.read()
    version, tensors, keys = struct.unpack_from("<IQQ", data, 4)
    assert data[:4] == b"GGUF" and version == 3
    at = 24

    def number(code):
        nonlocal at
        value, = struct.unpack_from("<" + code, data, at)
        at += struct.calcsize("<" + code)
        return value

    def text():
        nonlocal at
        size = number("Q")
        at += size
        return data[at - size:at].decode()

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            inner, count = number("I"), number("Q")
            return [value(inner) for _ in range(count)]
        return number("BbHhIif?__Qqd"[kind])

    metadata = {}
    for _ in range(keys):
        name = text()
        metadata[name] = value(number("I"))
    places = []
    for _ in range(tensors):
        name = text()
        dims = [number("Q") for _ in range(number("I"))]
        kind, offset = number("I"), number("Q")
        assert kind == 0, name
        places.append((name, int(np.prod(dims)), offset))
    start = -(-at // 32) * 32
    return metadata, {name: np.frombuffer(data, "<f4", count, start + offset).astype(float)
                      for name, count, offset in places}


def llama(program, *arguments):
    inside = lambda text: text[len(ROOT):] if text.startswith("/") else text
    done = subprocess.run((["chroot", ROOT] if ROOT else []) + [program, *map(inside, map(str, arguments))],
                          capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{program}: " + "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:]))


def check(report, case, folder, limit, dtype=None):
    """The model of the folder; with `dtype` what becomes of it in such blocks."""
    model, gguf = f"{folder}/model.graft", f"{folder}/model.gguf"
    graft("export", model, "-o", gguf, *(("--dtype", dtype) if dtype else ()))
    if dtype:
        model = f"{folder}/blocks.graft"
        graft("convert", gguf, "-o", model)
    ours, theirs = f"{folder}/ours.gguf", f"{folder}/theirs.gguf"
    graft("imatrix", model, "--data", f"{folder}/text", "--context", CONTEXT, "-o", ours, "--quiet")
    llama("llama-imatrix", "-m", gguf, "-f", f"{folder}/text", "-c", CONTEXT, "-b", CONTEXT, "-o", theirs, "--no-ppl", "-t", 2,
          "-ctk", "f32", "-ctv", "f32", "-fa", "off")
    (facts, found), (other_facts, expected) = read_gguf(ours), read_gguf(theirs)
    expected = {name: numbers for name, numbers in expected.items() if name.endswith((".in_sum2", ".counts"))}
    for key in ("general.type", "imatrix.chunk_count", "imatrix.chunk_size"):
        report.check(case, f"{key} {facts[key]}", float(facts[key] != other_facts[key]), 0)
    report.check(case, f"{len(found) // 2} matrices", float(found.keys() != expected.keys()), 0)
    worst = total = apart = 0.0
    for name in found.keys() & expected.keys():
        if name.endswith(".counts"):
            apart = max(apart, float(np.max(np.abs(found[name] - expected[name]))))
            continue
        scale = np.maximum(expected[name], np.mean(expected[name]) * 1e-3)  # of columns that hardly matter
        worst = max(worst, float(np.max(np.abs(found[name] - expected[name]) / scale)))
        total = max(total, abs(float(found[name].sum() / expected[name].sum()) - 1))
    report.check(case, "counts of tokens", apart, 0)
    report.check(case, "sums of squares", worst, limit)
    report.check(case, "their totals", total, limit)
    if not dtype:
        check_files(report, case, folder, gguf)


def check_files(report, case, folder, gguf):
    """Each takes the other's file, and quantizes nearly to the same bytes by it."""
    made = {}
    for name in ("ours", "theirs"):
        llama("llama-quantize", "--pure", "--imatrix", f"{folder}/{name}.gguf", gguf, f"{folder}/by_llama.gguf", "Q4_0")
        graft("export", f"{folder}/model.graft", "-o", f"{folder}/by_graft.gguf", "--dtype", "q4_0", "--imatrix",
              f"{folder}/{name}.gguf")
        for program in ("llama", "graft"):
            with open(f"{folder}/by_{program}.gguf", "rb") as file:
                made[program, name] = np.frombuffer(file.read(), np.uint8)
    for program in ("llama", "graft"):
        # The names of files stand in llama.cpp's metadata: from the end, where blocks are.
        pair = made[program, "ours"], made[program, "theirs"]
        size = min(map(len, pair)) * 3 // 4
        report.check(case, f"bytes of q4_0 that differ, by {program}", float(np.mean(pair[0][-size:] != pair[1][-size:])), 0.01)


def with_beginnings(folder):
    """The model puts a token before texts, which then begins each chunk."""
    with open(f"{folder}/model/tokenizer.json") as file:
        tokenizer = json.load(file)
    single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    tokenizer["post_processor"] = {"type": "TemplateProcessing", "single": single, "pair": single,
                                   "special_tokens": {"<s>": {"id": "<s>", "ids": [256], "tokens": ["<s>"]}}}
    with open(f"{folder}/model/tokenizer.json", "w") as file:
        json.dump(tokenizer, file)
    with open(f"{folder}/model/tokenizer_config.json", "w") as file:
        json.dump({"eos_token": "</s>", "bos_token": "<s>", "add_bos_token": True}, file)
    graft("convert", f"{folder}/model", "-o", f"{folder}/model.graft")


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    wanted = sys.argv[2:]
    if not shutil.which("llama-imatrix", path=f"{ROOT}/usr/bin" if ROOT else None):
        print("skipped: llama-imatrix of llama.cpp is not there")
        return 77
    report = Report()
    cases = [*((name, config, None) for name, config in FAMILIES.items()), ("beginnings", wider("llama"), None),
             *((name, wider("qwen2"), name) for name in ("q8_0", "q4_0", "q5_1"))]
    for case, config, dtype in cases:
        if wanted and case not in wanted:
            continue
        with tempfile.TemporaryDirectory(dir=f"{ROOT}/tmp") as folder:
            prepared(folder, config, 14)
            if case == "beginnings":
                with_beginnings(folder)
            check(report, case, folder,
                  BLOCKS if dtype else TABLES if config["model_type"] in GELU else FLOATS, dtype)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())

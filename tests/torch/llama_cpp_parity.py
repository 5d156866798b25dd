"""Exports language models of each family as GGUF files and has llama.cpp read them: the perplexity of a text must be
that which graft's own logits give.

Usage: [LLAMA_CPP_ROOT=DIR] llama_cpp_parity.py GRAFT [CASE ...]     (run with a Python that has torch)

llama-perplexity comes from PATH or, with LLAMA_CPP_ROOT, from that root by chroot (as root: a Debian sid made by
`debootstrap --variant=minbase sid DIR`, in which llama.cpp-tools-extra was installed). The models have random weights
and a tokenizer of bytes; their embeddings have more rows than there are tokens. Exit status: 0 all agree, 1 some do
not, 77 torch or llama.cpp is not there.
"""

import json
import os
import re
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
from decoder_parity import CASES, GEMMA3_GGUF, like, run_logits, write_folder
from export_parity import random_adapter, write_peft
from parity import Report, graft

ROOT = os.environ.get("LLAMA_CPP_ROOT", "")
CONTEXT, CHUNKS = 64, 10
TOKENS, ROWS = 258, 272
# Both compute in f32: sums in another order. llama.cpp looks gelu up in a table of f16 numbers (3.6e-4 at most here),
# and rounds what it multiplies blocks with to 8 bits and what it multiplies bf16 with to that (7e-3 at most here).
FLOATS, TABLES, BLOCKS = 1e-5, 1e-3, 1e-2
TEXT = ("The quick brown fox jumps over the lazy dog; pack my box with five dozen liquor jugs. " * 20)[:CONTEXT * CHUNKS]

WIDER = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
         "vocab_size": ROWS, "max_position_embeddings": 512}
FACTORS = {"short_factor": [1.0, 1.1, 1.25, 1.5, 1.75, 2.0, 2.25, 2.5], "long_factor": [1.0, 1.5, 2.0, 4.0, 8.0, 16.0, 24.0, 30.0]}


def wider(case, **changes):
    return like(CASES[case], **{**WIDER, **changes})


FAMILIES = {
    "llama": wider("llama"), "llama_tied": wider("llama_tied"), "llama_biased": wider("llama_biased"),
    "llama_linear": wider("llama_linear"), "llama_3_1": wider("llama_3_1"), "qwen2": wider("qwen2"),
    "qwen2_yarn": wider("qwen2_yarn"), "qwen3": wider("qwen3"), "smollm3": wider("smollm3"),
    "gemma2": wider("gemma2", num_hidden_layers=3, query_pre_attn_scalar=16, sliding_window=24),
    "gemma3": like(GEMMA3_GGUF, **WIDER, query_pre_attn_scalar=16, sliding_window=24),
    "phi3": wider("phi3", sliding_window=None, partial_rotary_factor=1),
    "phi3_longrope": wider("phi3_longrope", original_max_position_embeddings=256,
                           rope_scaling={"type": "longrope", **FACTORS}),
    "phi4_mini": wider("phi4_mini", original_max_position_embeddings=256, rope_scaling={
        "type": "longrope", **{name: factors[:6] for name, factors in FACTORS.items()}}),
    "granite": wider("granite"), "olmo2": wider("olmo2"), "stablelm": wider("stablelm"),
    "stablelm_parallel": wider("stablelm_parallel"),
    "falcon": like(CASES["falcon"], hidden_size=64, num_attention_heads=4, vocab_size=ROWS, max_position_embeddings=512),
    "gpt2": like(CASES["gpt2"], n_embd=64, n_head=4, vocab_size=ROWS, n_positions=512),
}
GELU = ("gemma2", "gemma3_text", "falcon", "gpt2")
FORMATS = ("f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q5_k", "q6_k")


def byte_letters():
    """The printable character that stands for each byte, as GPT-2's tokenizers have it."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    other = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(other)) for byte in range(256)]


def write_tokenizer(folder):
    vocabulary = {letter: i for i, letter in enumerate(byte_letters())}
    special = [{"id": 256 + i, "content": name, "special": True} for i, name in enumerate(("<s>", "</s>"))]
    tokenizer = {"added_tokens": special, "normalizer": None, "post_processor": None,
                 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
                 "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": vocabulary, "merges": []}}
    with open(f"{folder}/tokenizer.json", "w") as out:
        json.dump(tokenizer, out)
    with open(f"{folder}/tokenizer_config.json", "w") as out:
        json.dump({"eos_token": "</s>", "bos_token": "<s>", "add_bos_token": False}, out)


def llama_perplexities(path, text, *flags):
    """As llama-perplexity prints them: after each part of the text, of all parts so far."""
    inside = lambda file: file[len(ROOT):]
    command = ["llama-perplexity", "-m", inside(path), "-f", inside(text), "-c", str(CONTEXT), "-b", str(CONTEXT),
               "--no-warmup", "-t", "2", "-ctk", "f32", "-ctv", "f32", "-fa", "off", *(inside(flag) if flag.startswith("/") else flag for flag in flags)]
    done = subprocess.run((["chroot", ROOT] if ROOT else []) + command, capture_output=True, text=True, timeout=300)
    found = [float(x) for x in re.findall(r"\[\d+\]([\d.]+),", done.stdout)]
    if done.returncode or not found:
        raise RuntimeError("llama.cpp: " + "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:]))
    return found


def own_perplexities(path, tokens, folder, *flags):
    """The same of graft's logits: of each part the second half counts."""
    np.save(f"{folder}/tokens.npy", tokens.astype(np.int32))
    graft("run", path, "--input", f"tokens={folder}/tokens.npy", "--out", f"{folder}/out", *flags)
    logits = torch.from_numpy(np.load(f"{folder}/out/logits.npy")).double().log_softmax(-1)
    first = CONTEXT // 2
    places = torch.arange(first, CONTEXT - 1)
    parts = [-logits[i, places, torch.from_numpy(part)[places + 1].long()].sum() for i, part in enumerate(tokens)]
    counts = np.arange(1, len(parts) + 1) * len(places)
    return np.exp(np.cumsum([float(p) for p in parts]) / counts)


def compare(report, case, what, theirs, ours, limit):
    # The program may end before its last number is out.
    enough = len(ours) - 1 <= len(theirs) <= len(ours)
    theirs, ours = np.array(theirs), np.array(ours[:len(theirs)])
    worst = float(np.max(np.abs(theirs / ours - 1))) if enough else float("inf")
    report.check(case, f"{what}: perplexity {ours[-1]:.4f}, by llama.cpp {theirs[-1]:.4f}", worst, limit)


def prepared(folder, config, seed):
    weights = decoders.random_weights(config, seed=seed)
    write_folder(f"{folder}/model", config, weights)
    write_tokenizer(f"{folder}/model")
    with open(f"{folder}/text", "w") as out:
        out.write(TEXT)
    graft("convert", f"{folder}/model", "-o", f"{folder}/model.graft")
    return weights, np.frombuffer(TEXT.encode(), np.uint8).reshape(CHUNKS, CONTEXT).astype(np.int64)


def ids_of(tokens):
    """A byte's token: printable ones stand for themselves."""
    letters = byte_letters()
    order = {letter: i for i, letter in enumerate(letters)}
    return np.vectorize(lambda byte: order[letters[byte]])(tokens)


def check_family(report, case, config):
    with tempfile.TemporaryDirectory(dir=f"{ROOT}/tmp") as folder:
        _, tokens = prepared(folder, config, 11)
        tokens = ids_of(tokens)
        graft("export", f"{folder}/model.graft", "-o", f"{folder}/model.gguf")
        compare(report, case, "f32", llama_perplexities(f"{folder}/model.gguf", f"{folder}/text"),
                own_perplexities(f"{folder}/model.graft", tokens, folder),
                TABLES if config["model_type"] in GELU else FLOATS)


def check_format(report, name, columns):
    """Every format in a model whose rows are whole blocks of all, and in one whose rows of 256 are not."""
    config = wider("qwen2", hidden_size=columns, intermediate_size=2 * columns, head_dim=columns // 4)
    with tempfile.TemporaryDirectory(dir=f"{ROOT}/tmp") as folder:
        _, tokens = prepared(folder, config, 12)
        tokens = ids_of(tokens)
        graft("export", f"{folder}/model.graft", "-o", f"{folder}/model.gguf", "--dtype", name)
        graft("convert", f"{folder}/model.gguf", "-o", f"{folder}/back.graft")
        compare(report, f"{name}, rows of {columns}", "as exported",
                llama_perplexities(f"{folder}/model.gguf", f"{folder}/text"),
                own_perplexities(f"{folder}/back.graft", tokens, folder), BLOCKS)


def check_adapter(report):
    config = wider("llama")
    with tempfile.TemporaryDirectory(dir=f"{ROOT}/tmp") as folder:
        weights, tokens = prepared(folder, config, 13)
        tokens = ids_of(tokens)
        adapter = random_adapter(config, weights, torch.Generator().manual_seed(5))
        write_peft(f"{folder}/peft", {layer: (a, b, 8.0, lengths) for layer, (a, b, _, lengths) in adapter.items()})
        saved, numbers = f"{folder}/peft/adapter_model.safetensors", torch.Generator().manual_seed(6)
        rows, columns = weights["model.embed_tokens.weight"].shape
        extra = {"model.embed_tokens.lora_embedding_A": (4, rows), "model.embed_tokens.lora_embedding_B": (columns, 4),
                 "lm_head.lora_A.weight": (4, columns), "lm_head.lora_B.weight": (rows, 4)}
        decoders.save_safetensors(saved, {**decoders.load_safetensors(saved), **{
            "base_model.model." + name: torch.randn(shape, generator=numbers) * 0.1 for name, shape in extra.items()}})
        with open(f"{folder}/peft/adapter_config.json") as file:  # GGUF files have one alpha for all layers
            peft = {key: value for key, value in json.load(file).items() if key != "alpha_pattern"}
        with open(f"{folder}/peft/adapter_config.json", "w") as file:
            json.dump(peft, file)
        base, adapter = f"{folder}/model.graft", f"{folder}/adapter.graft"
        graft("convert", f"{folder}/peft", "--base", base, "-o", adapter)
        graft("export", base, "-o", f"{folder}/model.gguf")
        graft("export", adapter, "-o", f"{folder}/adapter.gguf")
        graft("merge", base, "--adapter", adapter, "-o", f"{folder}/merged.graft")
        graft("export", f"{folder}/merged.graft", "-o", f"{folder}/merged.gguf")
        expected = own_perplexities(base, tokens, folder, "--adapter", adapter)
        compare(report, "adapter", "by --lora", llama_perplexities(f"{folder}/model.gguf", f"{folder}/text", "--lora",
                                                                   f"{folder}/adapter.gguf"), expected, FLOATS)
        compare(report, "adapter", "merged", llama_perplexities(f"{folder}/merged.gguf", f"{folder}/text"), expected,
                FLOATS)


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    wanted = sys.argv[2:]
    if not shutil.which("llama-perplexity", path=f"{ROOT}/usr/bin" if ROOT else None):
        print("skipped: llama-perplexity of llama.cpp is not there")
        return 77
    report = Report()
    for case, config in FAMILIES.items():
        if not wanted or case in wanted:
            check_family(report, case, config)
    for name in FORMATS:
        if not wanted or name in wanted:
            check_format(report, name, 256)
            check_format(report, name, 96)
    if not wanted or "adapter" in wanted:
        check_adapter(report)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())

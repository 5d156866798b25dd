#!/usr/bin/env python3
"""Writes a GGUF file of the llama kind for benchmarks, without a tokenizer.

make_gguf.py random OUT.gguf [--type q8_0|f32] [--seed N]   random weights in SmolLM2-135M's shapes
make_gguf.py llama2c MODEL.bin OUT.gguf                     a checkpoint of llama2.c (version 0), as f32
"""

import argparse
import struct
import sys

import numpy as np

ALIGNMENT = 32
F32, Q8_0 = 0, 8
U32, F32_VALUE, STRING = 4, 6, 8


def text(s):
    data = s.encode()
    return struct.pack("<Q", len(data)) + data


def field(key, value):
    if isinstance(value, str):
        return text(key) + struct.pack("<I", STRING) + text(value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", F32_VALUE, value)
    return text(key) + struct.pack("<II", U32, value)


def q8_0(array):
    """Blocks of 32: a half that scales 32 signed bytes."""
    runs = array.reshape(-1, 32)
    scale = (np.abs(runs).max(axis=1) / 127).astype(np.float16)
    safe = np.where(scale == 0, 1, scale).astype(np.float32)[:, None]
    out = np.zeros(len(runs), dtype=[("d", "<f2"), ("q", "i1", 32)])
    out["d"] = scale
    out["q"] = np.clip(np.rint(runs / safe), -127, 127)
    return out.tobytes()


def write(path, fields, tensors):
    """tensors: (name, array [rows, columns] or [n], kind)."""
    encoded = []
    offset = 0
    infos = b""
    for name, array, kind in tensors:
        data = q8_0(array) if kind == Q8_0 else array.astype("<f4").tobytes()
        dims = array.shape[::-1]  # the fastest first
        infos += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *dims)
        infos += struct.pack("<IQ", kind, offset)
        data += bytes(-len(data) % ALIGNMENT)
        encoded.append(data)
        offset += len(data)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    head += b"".join(field(k, v) for k, v in fields.items()) + infos
    with open(path, "wb") as out:
        out.write(head + bytes(-len(head) % ALIGNMENT))
        for data in encoded:
            out.write(data)


def llama_fields(c):
    return {
        "general.architecture": "llama",
        "general.name": c["name"],
        "general.alignment": ALIGNMENT,
        "llama.block_count": c["layers"],
        "llama.context_length": c["context"],
        "llama.embedding_length": c["dim"],
        "llama.feed_forward_length": c["hidden"],
        "llama.attention.head_count": c["heads"],
        "llama.attention.head_count_kv": c["kv_heads"],
        "llama.attention.layer_norm_rms_epsilon": 1e-5,
        "llama.rope.dimension_count": c["dim"] // c["heads"],
        "llama.rope.freq_base": c["rope"],
        "llama.vocab_size": c["vocab"],
        "tokenizer.ggml.model": "none",
    }


def shapes(c):
    kv = c["dim"] // c["heads"] * c["kv_heads"]
    yield "token_embd", (c["vocab"], c["dim"])
    for i in range(c["layers"]):
        yield f"blk.{i}.attn_norm", (c["dim"],)
        yield f"blk.{i}.attn_q", (c["dim"], c["dim"])
        yield f"blk.{i}.attn_k", (kv, c["dim"])
        yield f"blk.{i}.attn_v", (kv, c["dim"])
        yield f"blk.{i}.attn_output", (c["dim"], c["dim"])
        yield f"blk.{i}.ffn_norm", (c["dim"],)
        yield f"blk.{i}.ffn_gate", (c["hidden"], c["dim"])
        yield f"blk.{i}.ffn_up", (c["hidden"], c["dim"])
        yield f"blk.{i}.ffn_down", (c["dim"], c["hidden"])
    yield "output_norm", (c["dim"],)


def random_model(options):
    c = {"name": "random 135M", "layers": 30, "context": 2048, "dim": 576, "hidden": 1536, "heads": 9, "kv_heads": 3,
         "rope": 100000.0, "vocab": 49152}
    generator = np.random.default_rng(options.seed)
    tensors = []
    for name, shape in shapes(c):
        norm = len(shape) == 1
        array = np.ones(shape) if norm else generator.standard_normal(shape, dtype=np.float32) * 0.04
        tensors.append((name + ".weight", array, Q8_0 if options.type == "q8_0" and not norm else F32))
    write(options.out, llama_fields(c), tensors)


def llama2c_model(options):
    with open(options.model, "rb") as f:
        dim, hidden, layers, heads, kv_heads, vocab, context = struct.unpack("<7i", f.read(28))
        data = np.fromfile(f, dtype="<f4")
    if vocab < 0:
        sys.exit("This checkpoint has a classifier of its own; only shared ones are read.")
    c = {"name": "llama2.c", "layers": layers, "context": context, "dim": dim, "hidden": hidden, "heads": heads,
         "kv_heads": kv_heads, "rope": 10000.0, "vocab": vocab}
    # The file holds each kind of matrix for all layers in a row, in this order.
    kinds = ["attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_down", "ffn_up"]
    wanted = dict(shapes(c))
    found = {}
    at = 0

    def take(name):
        nonlocal at
        count = int(np.prod(wanted[name]))
        found[name] = data[at:at + count].reshape(wanted[name])
        at += count

    take("token_embd")
    for kind in kinds:
        for i in range(layers):
            take(f"blk.{i}.{kind}")
    take("output_norm")
    write(options.out, llama_fields(c), [(n + ".weight", found[n], F32) for n in wanted])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    made = commands.add_parser("random")
    made.add_argument("out")
    made.add_argument("--type", choices=["q8_0", "f32"], default="q8_0")
    made.add_argument("--seed", type=int, default=1)
    made.set_defaults(run=random_model)
    converted = commands.add_parser("llama2c")
    converted.add_argument("model")
    converted.add_argument("out")
    converted.set_defaults(run=llama2c_model)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()

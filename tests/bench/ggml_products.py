#!/usr/bin/env python3
"""Times MUL_MAT of the ggml library that is installed (llama.cpp's), on its Vulkan backend.

ggml_products.py [--json] [--repeat N] TYPE:M,K,N ...     as in f32:1536,576,128 q8_0:1536,576,1

TYPE is that of the weight [M rows of K]; N rows of f32 are multiplied with it. Prints seconds of one product: medians
of wall-clock time and of the process's processor time, over graphs of several equal products.
"""

import argparse
import ctypes
import json
import os
import statistics
import struct
import sys
import time

TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8}
BLOCKS = {"q4_0": (32, 18), "q8_0": (32, 34)}
IN_GRAPH = 4


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool)]


def load():
    """The functions of libggml that are used, with their types."""
    base = ctypes.CDLL("libggml-base.so.0", mode=ctypes.RTLD_GLOBAL)
    top = ctypes.CDLL("libggml.so.0", mode=ctypes.RTLD_GLOBAL)
    p, i64, size = ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t
    signatures = {
        "ggml_init": (p, [InitParams]),
        "ggml_free": (None, [p]),
        "ggml_new_tensor_2d": (p, [p, ctypes.c_int, i64, i64]),
        "ggml_mul_mat": (p, [p, p, p]),
        "ggml_new_graph": (p, [p]),
        "ggml_build_forward_expand": (None, [p, p]),
        "ggml_backend_alloc_ctx_tensors": (p, [p, p]),
        "ggml_backend_buffer_free": (None, [p]),
        "ggml_backend_tensor_set": (None, [p, p, size, size]),
        "ggml_backend_graph_compute": (ctypes.c_int, [p, p]),
        "ggml_backend_synchronize": (None, [p]),
        "ggml_backend_dev_init": (p, [p, ctypes.c_char_p]),
        "ggml_backend_load_all": (None, []),
        "ggml_backend_dev_count": (size, []),
        "ggml_backend_dev_get": (p, [size]),
        "ggml_backend_dev_name": (ctypes.c_char_p, [p]),
        "ggml_backend_dev_description": (ctypes.c_char_p, [p]),
    }
    table = {}
    for name, (result, arguments) in signatures.items():
        function = getattr(base, name, None) or getattr(top, name)
        function.restype, function.argtypes = result, arguments
        table[name[len("ggml_"):]] = function
    return table


def weight_bytes(kind, count):
    """Numbers that no kernel stumbles over: halves, or blocks of small codes."""
    if kind == "f32":
        return struct.pack("<f", 0.5) * count
    if kind == "f16":
        return struct.pack("<e", 0.5) * count
    elements, size = BLOCKS[kind]
    return (struct.pack("<e", 0.25) + bytes([2] * (size - 2))) * (count // elements)


def measure(g, backend, spec, repeat):
    kind, sizes = spec.split(":")
    m, k, n = (int(x) for x in sizes.split(","))
    context = g["init"](InitParams(1 << 20, None, True))
    w = g["new_tensor_2d"](context, TYPES[kind], k, m)
    x = g["new_tensor_2d"](context, 0, k, n)
    graph = g["new_graph"](context)
    for _ in range(IN_GRAPH):
        g["build_forward_expand"](graph, g["mul_mat"](context, w, x))
    memory = g["backend_alloc_ctx_tensors"](context, backend)
    for tensor, data in ((w, weight_bytes(kind, m * k)), (x, struct.pack("<f", 0.5) * (n * k))):
        g["backend_tensor_set"](tensor, data, 0, len(data))
    wall, processor = [], []
    for i in range(repeat + 2):
        begin = time.perf_counter(), time.process_time()
        g["backend_graph_compute"](backend, graph)
        g["backend_synchronize"](backend)
        if i >= 2:  # the first compile
            wall.append((time.perf_counter() - begin[0]) / IN_GRAPH)
            processor.append((time.process_time() - begin[1]) / IN_GRAPH)
    g["backend_buffer_free"](memory)
    g["free"](context)
    seconds = statistics.median(wall)
    return {"type": kind, "m": m, "k": k, "n": n, "seconds": seconds,
            "processor_seconds": statistics.median(processor), "gflops": 2e-9 * m * k * n / seconds}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("products", nargs="+")
    options = parser.parse_args()
    os.environ.setdefault("GGML_VK_VISIBLE_DEVICES", "0")  # without it, software devices are passed over
    silenced = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    try:
        g = load()
        g["backend_load_all"]()
        devices = [g["backend_dev_get"](i) for i in range(g["backend_dev_count"]())]
        found = [d for d in devices if g["backend_dev_name"](d).startswith(b"Vulkan")]
    except OSError:
        found, why = [], "libggml is not installed"
    else:
        why = "ggml has no Vulkan device here"
    os.dup2(silenced, 2)
    if not found:
        sys.exit(f"{why} (Debian sid: libggml0-backend-vulkan)")
    backend = g["backend_dev_init"](found[0], None)
    rows = [measure(g, backend, spec, options.repeat) for spec in options.products]
    device = g["backend_dev_description"](found[0]).decode()
    if options.json:
        print(json.dumps({"device": device, "products": rows}))
        return
    print(device)
    for row in rows:
        print(f'{row["type"]:5} m {row["m"]} k {row["k"]} n {row["n"]}: {row["seconds"] * 1e3:.3f} ms, '
              f'{row["gflops"]:.2f} GFLOP/s, {row["processor_seconds"] * 1e3:.3f} ms of processor time')


if __name__ == "__main__":
    main()

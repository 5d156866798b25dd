"""The errors of matrices that become blocks, beside those of ggml's quantizers, with and without an importance.

Usage: LIBGGML=.../libggml-base.so ggml_blocks.py GRAFT     (run with a Python that has torch)

llama.cpp's library is found in its builds, and in npm's @node-llama-cpp/linux-x64 (bins/linux-x64).
Exit status: 0 no error is more than a hundredth above ggml's, 1 some is, 77 LIBGGML names no library.
"""

import ctypes
import json
import os
import sys
import tempfile

try:
    import decoders
    import numpy as np
    import parity
    from parity import Report, graft
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

# name: ggml's number of the type, elements and bytes of a block
TYPES = {"q8_0": (8, 32, 34), "q4_0": (2, 32, 18), "q4_1": (3, 32, 20), "q5_0": (6, 32, 22), "q5_1": (7, 32, 24),
         "q4_k": (12, 256, 144), "q5_k": (13, 256, 176), "q6_k": (14, 256, 210)}
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "intermediate_size": 512,
          "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 512,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False}


def ggml_error(library, kind, x):
    number, elements, size = TYPES[kind]
    blocks, back = np.zeros(x.size // elements * size, np.uint8), np.zeros_like(x)
    pointer = [a.ctypes.data_as(ctypes.c_void_p) for a in (x, blocks, back)]
    library.ggml_quantize_chunk(number, pointer[0], pointer[1], 0, *x.shape, None)
    getattr(library, "dequantize_row_" + kind.replace("k", "K"))(pointer[1], pointer[2], ctypes.c_int64(x.size))
    off = x.astype(np.float64) - back
    return ((off * off).sum() / (x.astype(np.float64) ** 2).sum()) ** 0.5


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    if not os.path.exists(os.environ.get("LIBGGML", "")):
        print("skipped: LIBGGML names no library")
        return 77
    library = ctypes.CDLL(os.environ["LIBGGML"])
    library.ggml_quantize_chunk.restype = ctypes.c_size_t
    library.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *[ctypes.c_int64] * 3, ctypes.c_void_p]
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(f"{folder}/m")
        weights = decoders.random_weights(CONFIG, 1)
        decoders.save_safetensors(f"{folder}/m/model.safetensors", weights)
        with open(f"{folder}/m/config.json", "w") as file:
            json.dump(CONFIG, file)
        for kind in TYPES:
            said = json.loads(graft("convert", f"{folder}/m", "-o", f"{folder}/m.graft", "--quantize", kind, "--json"))
            for row in said["blocks"]:
                ours, theirs = row["error"], ggml_error(library, kind, np.ascontiguousarray(weights[row["name"]].numpy()))
                report.check(kind, f"{row['name']}: {ours:.5f}, ggml {theirs:.5f}", max(ours / theirs - 1, 0), 0.01)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())

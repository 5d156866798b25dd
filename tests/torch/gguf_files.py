"""GGUF files for tests: a writer, random blocks of the quantized formats with what they stand for, and the names and
keys of decoder models."""

import math
import struct

import numpy as np
import torch

F32, F16 = 0, 1
ALIGNMENT = 32


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(item):
    """A metadata value with its type: bool, int (u32), float (f32), str, or a list of one of these."""
    if isinstance(item, bool):
        return 7, struct.pack("<B", item)
    if isinstance(item, int):
        return 4, struct.pack("<I", item)
    if isinstance(item, float):
        return 6, struct.pack("<f", item)
    if isinstance(item, str):
        return 8, text(item)
    parts = [value(i) for i in item]
    return 9, struct.pack("<IQ", parts[0][0], len(parts)) + b"".join(part for _, part in parts)


def save_gguf(path, metadata, tensors):
    """`tensors`: name -> (row-major shape, ggml type, bytes)."""
    out = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    for key, item in metadata.items():
        kind, raw = value(item)
        out += [text(key), struct.pack("<I", kind), raw]
    at = 0
    for name, (shape, kind, raw) in tensors.items():
        out += [text(name), struct.pack("<I", len(shape)), struct.pack(f"<{len(shape)}Q", *reversed(shape)),
                struct.pack("<IQ", kind, at)]
        at += -(-len(raw) // ALIGNMENT) * ALIGNMENT
    head = b"".join(out)
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % ALIGNMENT))
        for _, _, raw in tensors.values():
            file.write(raw + b"\0" * (-len(raw) % ALIGNMENT))


def plain(tensor, kind=F32):
    array = tensor.detach().numpy().astype(np.float32 if kind == F32 else np.float16)
    return list(array.shape), kind, array.tobytes()


def bits(packed, count):
    """The first `count` bits of each row of bytes, lowest first."""
    return np.unpackbits(packed, axis=-1, bitorder="little")[..., :count].astype(np.int32)


def low_high(packed):
    """Nibbles of bytes: all low ones, then all high ones."""
    return np.concatenate((packed & 15, packed >> 4), -1).astype(np.int32)


class Blocks:
    """Random blocks; each method of a format returns bytes [n, size] and the numbers [n, elements] they stand for."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def bytes(self, n, size):
        return self.random.integers(0, 256, (n, size), dtype=np.uint8)

    def scale(self, n, size):
        half = (self.random.uniform(0.5, 1, (n, 1)) * size).astype(np.float16)
        return half.view(np.uint8).reshape(n, 2), half.astype(np.float32)

    def q8_0(self, n):
        d, scale = self.scale(n, 1 / 500)
        q = self.bytes(n, 32)
        return np.hstack((d, q)), scale * q.view(np.int8)

    def q4_0(self, n):
        d, scale = self.scale(n, 1 / 32)
        q = self.bytes(n, 16)
        return np.hstack((d, q)), scale * (low_high(q) - 8)

    def q4_1(self, n):
        (d, scale), (m, offset) = self.scale(n, 1 / 32), self.scale(n, -1 / 4)
        q = self.bytes(n, 16)
        return np.hstack((d, m, q)), scale * low_high(q) + offset

    def q5_0(self, n):
        d, scale = self.scale(n, 1 / 64)
        high, q = self.bytes(n, 4), self.bytes(n, 16)
        return np.hstack((d, high, q)), scale * (low_high(q) + 16 * bits(high, 32) - 16)

    def q5_1(self, n):
        (d, scale), (m, offset) = self.scale(n, 1 / 64), self.scale(n, -1 / 4)
        high, q = self.bytes(n, 4), self.bytes(n, 16)
        return np.hstack((d, m, high, q)), scale * (low_high(q) + 16 * bits(high, 32)) + offset

    def six_bit_scales(self, n):
        """Eight scales and eight minima of six bits in twelve bytes."""
        packed = self.bytes(n, 12)
        wide = packed.astype(np.int32)
        first, second, third = wide[:, 0:4], wide[:, 4:8], wide[:, 8:12]
        scales = np.hstack((first % 64, third % 16 + first // 64 * 16))
        minima = np.hstack((second % 64, third // 16 + second // 64 * 16))
        return packed, scales, minima

    def k_blocks(self, n, fifth):
        (d, scale), (m, offset) = self.scale(n, 1 / 2000), self.scale(n, 1 / 2000)
        packed, scales, minima = self.six_bit_scales(n)
        high, q = self.bytes(n, 32), self.bytes(n, 128)
        # 32 bytes hold two runs of 32: low nibbles, then high ones.
        numbers = low_high(q.reshape(n, 4, 32)).reshape(n, 8, 32)
        if fifth:
            numbers += 16 * bits(high[:, :, None], 8).transpose(0, 2, 1)
        out = scale[:, None] * scales[:, :, None] * numbers - offset[:, None] * minima[:, :, None]
        parts = (d, m, packed, high, q) if fifth else (d, m, packed, q)
        return np.hstack(parts), out.reshape(n, 256).astype(np.float32)

    def q4_k(self, n):
        return self.k_blocks(n, False)

    def q5_k(self, n):
        return self.k_blocks(n, True)

    def q6_k(self, n):
        low, high, scales = self.bytes(n, 128), self.bytes(n, 64), self.bytes(n, 16)
        d, scale = self.scale(n, 1 / 40000)
        nibbles = low_high(low.reshape(n, 2, 64)).reshape(n, 256)
        # Byte i of a half holds the high bits of elements i, i + 32, i + 64 and i + 96.
        pairs = np.stack([high.reshape(n, 2, 32) >> shift & 3 for shift in (0, 2, 4, 6)], 2).reshape(n, 256)
        q = nibbles + 16 * pairs.astype(np.int32) - 32
        per = np.repeat(scales.view(np.int8).astype(np.float32), 16, 1)
        return np.hstack((low, high, scales, d)), (scale * per * q).astype(np.float32)


FORMATS = {"q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q4_k": 12, "q5_k": 13, "q6_k": 14}


def quantized(blocks, name, rows, columns):
    """A random matrix in a format: what save_gguf takes, and the numbers."""
    per_block = 256 if name.endswith("k") else 32
    raw, numbers = getattr(blocks, name)(rows * columns // per_block)
    return ([rows, columns], FORMATS[name], raw.tobytes()), torch.from_numpy(numbers.reshape(rows, columns).astype(np.float32))


NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
         "transformer.wte": "token_embd", "transformer.wpe": "position_embd", "transformer.ln_f": "output_norm"}
LAYER_NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
               "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.qkv_proj": "attn_qkv",
               "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
               "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up",
               "mlp.down_proj": "ffn_down", "ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv",
               "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
GEMMA_NAMES = {**LAYER_NAMES, "post_attention_layernorm": "post_attention_norm",
               "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm"}


def gguf_name(config, name):
    module, kind = name.rsplit(".", 1)
    if module in NAMES:
        return f"{NAMES[module]}.{kind}"
    number, rest = module.split(".", 2)[2].split(".", 1)
    return f"blk.{number}.{(GEMMA_NAMES if 'gemma' in config['model_type'] else LAYER_NAMES)[rest]}.{kind}"


def gguf_tensors(config, weights):
    """As llama.cpp's converter lays them out, but for the rows of llama's q and k: those are the caller's."""
    out = {}
    for name, tensor in weights.items():
        if "gemma" in config["model_type"] and "norm" in name:
            tensor = tensor + 1
        if config["model_type"] == "gpt2" and ".c_" in name and name.endswith("weight"):
            tensor = tensor.T.contiguous()
        out[gguf_name(config, name)] = plain(tensor)
    for name, part in (("rope_factors_short.weight", "short_factor"), ("rope_factors_long.weight", "long_factor")):
        if part in (config.get("rope_scaling") or {}):
            out[name] = plain(torch.tensor(config["rope_scaling"][part]))
    return out


def gguf_metadata(config):
    kind = {"gemma3_text": "gemma3", "mistral": "llama"}.get(config["model_type"], config["model_type"])
    if kind == "gpt2":
        sizes = {"embedding_length": config["n_embd"], "attention.head_count": config["n_head"],
                 "feed_forward_length": 4 * config["n_embd"], "context_length": config["n_positions"],
                 "block_count": config["n_layer"], "attention.layer_norm_epsilon": config["layer_norm_epsilon"]}
    else:
        sizes = {"embedding_length": config["hidden_size"], "attention.head_count": config["num_attention_heads"],
                 "attention.head_count_kv": config["num_key_value_heads"],
                 "feed_forward_length": config["intermediate_size"],
                 "context_length": config["max_position_embeddings"], "block_count": config["num_hidden_layers"],
                 "attention.layer_norm_rms_epsilon": config["rms_norm_eps"], "rope.freq_base": config["rope_theta"]}
        if "head_dim" in config:
            sizes["attention.key_length"] = sizes["attention.value_length"] = config["head_dim"]
            sizes["rope.dimension_count"] = int(config["head_dim"] * config.get("partial_rotary_factor", 1))
        if config.get("sliding_window") and config.get("use_sliding_window", True):
            sizes["attention.sliding_window"] = config["sliding_window"]
        scaling = config.get("rope_scaling") or {}
        if scaling.get("type") == "longrope":
            old = config["original_max_position_embeddings"]
            sizes["rope.scaling.original_context_length"] = old
            sizes["rope.scaling.attn_factor"] = math.sqrt(
                1 + math.log(config["max_position_embeddings"] / old) / math.log(old))
        elif scaling:
            sizes["rope.scaling.type"] = scaling.get("rope_type", scaling.get("type"))
            sizes["rope.scaling.factor"] = float(scaling["factor"])
            sizes["rope.scaling.original_context_length"] = scaling.get("original_max_position_embeddings", 0)
    return {"general.architecture": kind, **{f"{kind}.{key}": item for key, item in sizes.items()}}

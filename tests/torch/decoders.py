"""Reference language models, written from the papers' definitions in plain torch. A model is a dictionary of tensors
under the names of its Hugging Face folder and a configuration, its config.json."""

import json
import math
import struct

import numpy as np
import torch
import torch.nn.functional as F


def save_safetensors(path, tensors):
    """`tensors`: name -> numpy array or torch tensor; float32, float16, and bfloat16 (torch only)."""
    kinds = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
    header, blocks, at = {}, [], 0
    for name, tensor in tensors.items():
        tensor = tensor.detach().contiguous()
        raw = tensor.view(torch.int16) if tensor.dtype != torch.float32 else tensor
        block = raw.numpy().tobytes()
        header[name] = {"dtype": kinds[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + len(block)]}
        blocks.append(block)
        at += len(block)
    text = json.dumps(header).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(blocks))


def load_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    out = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        assert entry["dtype"] == "F32"
        out[name] = torch.from_numpy(np.frombuffer(data[8 + size + begin:8 + size + end], np.float32).copy())
        out[name] = out[name].reshape(entry["shape"])
    return out


def rms_norm(x, weight, epsilon):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon) * weight


def frequencies(config, dim, theta, scaling):
    inverse = theta ** -(torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    scaling = scaling or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "linear":
        return inverse / scaling["factor"], 1.0
    if kind in ("longrope", "su"):  # an older name of it
        old = config["original_max_position_embeddings"]
        factor = config["max_position_embeddings"] / old
        magnitude = scaling.get("attention_factor", math.sqrt(1 + math.log(factor) / math.log(old)))
        return inverse / torch.tensor(scaling["short_factor"], dtype=torch.float64), magnitude
    if kind == "llama3":
        wavelength = 2 * math.pi / inverse
        old, low, high = (scaling[k] for k in ("original_max_position_embeddings", "low_freq_factor",
                                               "high_freq_factor"))
        smooth = (old / wavelength - low) / (high - low)
        blend = (1 - smooth) * inverse / scaling["factor"] + smooth * inverse
        slow = torch.where(wavelength > old / low, inverse / scaling["factor"], blend)
        return torch.where(wavelength < old / high, inverse, slow), 1.0
    if kind == "yarn":
        old = scaling["original_max_position_embeddings"]
        def turns_at(turns):
            return dim * math.log(old / (turns * 2 * math.pi)) / (2 * math.log(theta))
        low, high = turns_at(scaling.get("beta_fast", 32)), turns_at(scaling.get("beta_slow", 1))
        if scaling.get("truncate", True):
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, dim - 1)
        ramp = ((torch.arange(dim // 2, dtype=torch.float64) - low) / max(high - low, 1e-3)).clamp(0, 1)
        grown = lambda scale: 0.1 * scale * math.log(scaling["factor"]) + 1 if scaling["factor"] > 1 else 1.0
        magnitude = scaling.get("attention_factor")
        if magnitude is None and scaling.get("mscale") and scaling.get("mscale_all_dim"):
            magnitude = grown(scaling["mscale"]) / grown(scaling["mscale_all_dim"])
        return (inverse / scaling["factor"] * ramp + inverse * (1 - ramp),
                grown(1) if magnitude is None else magnitude)
    assert kind in ("default", "dynamic"), kind  # dynamic: within the context
    return inverse, 1.0


def rotate(x, inverse, magnitude, interleaved=False):
    """x [batch, heads, seq, dim]; the first 2 * len(inverse) elements turn."""
    turned = 2 * len(inverse)
    angles = torch.outer(torch.arange(x.shape[2], dtype=torch.float64), inverse)
    cos, sin = ((f(angles) * magnitude).to(x.dtype) for f in (torch.cos, torch.sin))
    head, rest = x[..., :turned], x[..., turned:]
    if interleaved:
        a, b = head[..., 0::2], head[..., 1::2]
        head = torch.stack((a * cos - b * sin, b * cos + a * sin), -1).flatten(-2)
    else:
        a, b = head.chunk(2, -1)
        head = torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
    return torch.cat((head, rest), -1)


def attend(q, k, v, scale, window, cap=None):
    """Causal; q [batch, heads, seq, dim], k and v with fewer heads maybe. `cap`: scores are cap * tanh(score / cap)."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = q @ k.transpose(-1, -2) * scale
    if cap:
        scores = cap * torch.tanh(scores / cap)
    places = torch.arange(q.shape[2])
    ahead = places[None, :] - places[:, None]
    hidden = (ahead > 0) | ((ahead <= -window) if window else torch.zeros_like(ahead, dtype=torch.bool))
    return scores.masked_fill(hidden, -math.inf).softmax(-1) @ v


def split_heads(x, dim):
    return x.reshape(*x.shape[:2], -1, dim).transpose(1, 2)


def merge_heads(x):
    return x.transpose(1, 2).flatten(2)


def gpt2(config, w, tokens):
    hidden, heads = config["n_embd"], config["n_head"]
    scale = (hidden // heads) ** -0.5 if config.get("scale_attn_weights", True) else 1
    norm = lambda x, name: F.layer_norm(x, (hidden,), w[name + ".weight"], w[name + ".bias"],
                                        config["layer_norm_epsilon"])
    conv = lambda x, name: x @ w[name + ".weight"] + w[name + ".bias"]
    x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"][:tokens.shape[1]]
    for i in range(config["n_layer"]):
        p = f"transformer.h.{i}."
        q, k, v = (split_heads(part, hidden // heads)
                   for part in conv(norm(x, p + "ln_1"), p + "attn.c_attn").chunk(3, -1))
        x = x + conv(merge_heads(attend(q, k, v, scale, 0)), p + "attn.c_proj")
        h = activation(config["activation_function"])(conv(norm(x, p + "ln_2"), p + "mlp.c_fc"))
        x = x + conv(h, p + "mlp.c_proj")
    return norm(x, "transformer.ln_f") @ w.get("lm_head.weight", w["transformer.wte.weight"]).T


def turns(config, layer):
    """Whether a layer of SmolLM 3 has positions."""
    if "no_rope_layers" in config:
        return config["no_rope_layers"][layer] == 1
    return (layer + 1) % config.get("no_rope_layer_interval", 4) != 0


def window_of(config, layer):
    """Keys that a query of the layer sees at most; 0: all."""
    kind, window = config["model_type"], config.get("sliding_window") or 0
    optional = kind in ("qwen2", "qwen3", "smollm3")
    if not window or not config.get("use_sliding_window", not optional):
        return 0
    if config.get("layer_types"):
        sliding = config["layer_types"][layer] == "sliding_attention"
    elif kind in ("gemma2", "gemma3_text"):
        sliding = (layer + 1) % (2 if kind == "gemma2" else config.get("sliding_window_pattern", 6)) != 0
    elif kind in ("qwen2", "qwen3"):
        sliding = layer >= config.get("max_window_layers", 28)
    else:
        sliding = not turns(config, layer) if kind == "smollm3" else kind in ("mistral", "phi3")
    return window if sliding else 0


def activation(name):
    """As transformers names them."""
    tanh = lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
    return {"silu": F.silu, "gelu": F.gelu, "relu": F.relu, "gelu_new": tanh, "gelu_pytorch_tanh": tanh}[name]


def falcon(config, w, tokens):
    """With one head of keys and values, which all heads of queries share."""
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    dim = hidden // heads
    norm = lambda x, name: F.layer_norm(x, (hidden,), w[name + ".weight"], w[name + ".bias"],
                                        config["layer_norm_epsilon"])
    linear = lambda x, name: F.linear(x, w[name + ".weight"], w.get(name + ".bias"))
    inverse, magnitude = frequencies(config, dim, config["rope_theta"], config.get("rope_scaling"))
    x = w["transformer.word_embeddings.weight"][tokens]
    for i in range(config["num_hidden_layers"]):
        p = f"transformer.h.{i}."
        read = norm(x, p + "input_layernorm")
        q, k, v = (split_heads(part, dim) for part in
                   linear(read, p + "self_attention.query_key_value").split([hidden, dim, dim], -1))
        q, k = rotate(q, inverse, magnitude), rotate(k, inverse, magnitude)
        mixed = linear(merge_heads(attend(q, k, v, dim ** -0.5, 0)), p + "self_attention.dense")
        if not config["parallel_attn"]:
            x = x + mixed
            read, mixed = norm(x, p + "post_attention_layernorm"), 0
        x = x + mixed + linear(F.gelu(linear(read, p + "mlp.dense_h_to_4h")), p + "mlp.dense_4h_to_h")
    head = w["transformer.word_embeddings.weight" if config["tie_word_embeddings"] else "lm_head.weight"]
    return norm(x, "transformer.ln_f") @ head.T


def query_key_norms(config):
    """Sizes of the norms of queries and of keys; None: there are none."""
    dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    if config["model_type"] in ("gemma3_text", "qwen3"):
        return dim, dim
    if config["model_type"] == "olmo2":
        return config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    return None


def decoder(config, w, tokens, interleaved=False):
    """Llama and its relatives, Gemma 2 and 3, Granite, OLMo 2 and StableLM."""
    kind = config["model_type"]
    gemma = kind.startswith("gemma")
    after = gemma or kind == "olmo2"  # norms of what is added
    dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    kv = config["num_key_value_heads"]
    unit = 1 if gemma else 0
    if kind == "stablelm":
        norm = lambda x, name: F.layer_norm(x, x.shape[-1:], w[name + ".weight"], w[name + ".bias"],
                                            config["layer_norm_eps"])
    else:
        norm = lambda x, name: rms_norm(x, w[name + ".weight"] + unit, config["rms_norm_eps"])
    linear = lambda x, name: F.linear(x, w[name + ".weight"], w.get(name + ".bias"))
    act = activation(config.get("hidden_activation", "gelu_pytorch_tanh") if gemma else config.get("hidden_act", "silu"))
    turned = int(dim * config.get("partial_rotary_factor", 1))
    grow = config.get("residual_multiplier", 1)
    x = w["model.embed_tokens.weight"][tokens] * config.get("embedding_multiplier", 1)
    if gemma:
        x = x * math.sqrt(config["hidden_size"])
    for i in range(config["num_hidden_layers"]):
        p = f"model.layers.{i}."
        window = window_of(config, i)
        theta, scaling = config["rope_theta"], config.get("rope_scaling")
        if kind == "gemma3_text" and window:
            theta, scaling = config["rope_local_base_freq"], None
        inverse, magnitude = frequencies(config, turned, theta, scaling)
        read = h = x if kind == "olmo2" else norm(x, p + "input_layernorm")
        if kind == "phi3":
            q, k, v = linear(h, p + "self_attn.qkv_proj").split(
                [config["num_attention_heads"] * dim, kv * dim, kv * dim], -1)
        else:
            q, k, v = (linear(h, p + f"self_attn.{n}_proj") for n in "qkv")
        norms = query_key_norms(config)
        whole = norms and norms[0] != dim  # of all heads together
        if whole:
            q, k = norm(q, p + "self_attn.q_norm"), norm(k, p + "self_attn.k_norm")
        q, k, v = (split_heads(part, dim) for part in (q, k, v))
        if norms and not whole:
            q, k = norm(q, p + "self_attn.q_norm"), norm(k, p + "self_attn.k_norm")
        if kind != "smollm3" or turns(config, i):
            q, k = (rotate(part, inverse, magnitude, interleaved) for part in (q, k))
        scale = config["query_pre_attn_scalar"] ** -0.5 if gemma else config.get("attention_multiplier", dim ** -0.5)
        cap = config.get("attn_logit_softcapping")
        h = linear(merge_heads(attend(q, k, v, scale, window, cap)), p + "self_attn.o_proj")
        x = x + (norm(h, p + "post_attention_layernorm") if after else h) * grow
        if kind == "olmo2":
            h = x
        elif config.get("use_parallel_residual"):
            h = read
        else:
            h = norm(x, p + ("pre_feedforward_layernorm" if gemma else "post_attention_layernorm"))
        if kind == "phi3":
            gate, up = linear(h, p + "mlp.gate_up_proj").chunk(2, -1)
        else:
            gate, up = linear(h, p + "mlp.gate_proj"), linear(h, p + "mlp.up_proj")
        h = linear(act(gate) * up, p + "mlp.down_proj")
        x = x + (norm(h, p + "post_feedforward_layernorm") if after else h) * grow
    x = norm(x, "model.norm")
    logits = x @ (w["model.embed_tokens.weight"] if config["tie_word_embeddings"] else w["lm_head.weight"]).T
    logits, cap = logits / config.get("logits_scaling", 1), config.get("final_logit_softcapping")
    return cap * torch.tanh(logits / cap) if cap else logits


def forward(config, w, tokens, interleaved=False):
    if config["model_type"] in more_decoders.FAMILIES:
        return more_decoders.forward(config, w, tokens)
    if config["model_type"] == "gpt2":
        return gpt2(config, w, tokens)
    if config["model_type"] == "falcon":
        return falcon(config, w, tokens)
    return decoder(config, w, tokens, interleaved)


def random_weights(config, seed):
    """Tensors of the right names and shapes for a configuration."""
    if config["model_type"] in more_decoders.FAMILIES:
        return more_decoders.random_weights(config, seed)
    torch.manual_seed(seed)
    out = {}

    def add(name, *shape, bias=False):
        out[name + ".weight"] = torch.randn(*shape) * shape[-1] ** -0.5 if len(shape) > 1 else torch.randn(*shape) * 0.3 + 1
        if bias:
            out[name + ".bias"] = torch.randn(shape[0] if bias is True else bias) * 0.2

    kind = config["model_type"]
    if kind == "gpt2":
        n = config["n_embd"]
        inner = config.get("n_inner") or 4 * n
        add("transformer.wte", config["vocab_size"], n)
        add("transformer.wpe", config["n_positions"], n)
        for i in range(config["n_layer"]):
            p = f"transformer.h.{i}."
            add(p + "ln_1", n, bias=True)
            add(p + "attn.c_attn", n, 3 * n, bias=3 * n)
            add(p + "attn.c_proj", n, n, bias=True)
            add(p + "ln_2", n, bias=True)
            add(p + "mlp.c_fc", n, inner, bias=inner)
            add(p + "mlp.c_proj", inner, n, bias=n)
        add("transformer.ln_f", n, bias=True)
        if not config.get("tie_word_embeddings", True):
            add("lm_head", config["vocab_size"], n)
        return out
    n = config["hidden_size"]
    if kind == "falcon":
        dim = n // config["num_attention_heads"]
        add("transformer.word_embeddings", config["vocab_size"], n)
        for i in range(config["num_hidden_layers"]):
            p, bias = f"transformer.h.{i}.", config["bias"]
            add(p + "input_layernorm", n, bias=True)
            if not config["parallel_attn"]:
                add(p + "post_attention_layernorm", n, bias=True)
            add(p + "self_attention.query_key_value", n + 2 * dim, n, bias=bias)
            add(p + "self_attention.dense", n, n, bias=bias)
            inner = config.get("ffn_hidden_size") or 4 * n
            add(p + "mlp.dense_h_to_4h", inner, n, bias=bias)
            add(p + "mlp.dense_4h_to_h", n, inner, bias=bias)
        add("transformer.ln_f", n, bias=True)
        if not config["tie_word_embeddings"]:
            add("lm_head", config["vocab_size"], n)
        return out
    f = config["intermediate_size"]
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    dim = config.get("head_dim") or n // heads
    layer_norm = kind == "stablelm"
    add("model.embed_tokens", config["vocab_size"], n)
    for i in range(config["num_hidden_layers"]):
        p = f"model.layers.{i}."
        norms = ["input_layernorm", "post_attention_layernorm"]
        if kind.startswith("gemma"):
            norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
        if kind == "olmo2":
            norms = ["post_attention_layernorm", "post_feedforward_layernorm"]
        if config.get("use_parallel_residual"):
            norms = ["input_layernorm"]
        for name in norms:
            add(p + name, n, bias=layer_norm)
        if kind == "phi3":
            add(p + "self_attn.qkv_proj", (heads + 2 * kv) * dim, n)
            add(p + "mlp.gate_up_proj", 2 * f, n)
        else:
            biased = kind == "qwen2" or config.get("attention_bias", False) or config.get("use_qkv_bias", False)
            for name, rows in (("q", heads), ("k", kv), ("v", kv)):
                add(p + f"self_attn.{name}_proj", rows * dim, n, bias=biased)
            add(p + "mlp.gate_proj", f, n, bias=config.get("mlp_bias", False))
            add(p + "mlp.up_proj", f, n, bias=config.get("mlp_bias", False))
        if query_key_norms(config):
            for name, size in zip("qk", query_key_norms(config)):
                add(p + f"self_attn.{name}_norm", size)
        add(p + "self_attn.o_proj", n, heads * dim, bias=config.get("attention_bias", False))
        add(p + "mlp.down_proj", n, f, bias=config.get("mlp_bias", False))
    add("model.norm", n, bias=layer_norm)
    if not config["tie_word_embeddings"]:
        add("lm_head", config["vocab_size"], n)
    return out


import more_decoders  # which uses the functions above

"""Reference language models of families that differ from a Llama in a few choices, in plain torch. A family's row says
which; names are those of its Hugging Face folder."""

import math

import torch
import torch.nn.functional as F

import decoders

LLAMA = {"module": "model.", "embed": "embed_tokens", "layer": "layers.", "attn_norm": "input_layernorm",
         "ffn_norm": "post_attention_layernorm", "q": "self_attn.q_proj", "k": "self_attn.k_proj", "v": "self_attn.v_proj",
         "o": "self_attn.o_proj", "gate": "mlp.gate_proj", "up": "mlp.up_proj", "down": "mlp.down_proj",
         "final": "norm", "head": "lm_head"}
NEOX = {**LLAMA, "module": "gpt_neox.", "embed": "embed_in", "qkv": "attention.query_key_value", "o": "attention.dense",
        "up": "mlp.dense_h_to_4h", "down": "mlp.dense_4h_to_h", "final": "final_layer_norm", "head": "embed_out"}
PHI = {**LLAMA, "o": "self_attn.dense", "up": "mlp.fc1", "down": "mlp.fc2", "final": "final_layernorm"}
STARCODER = {**LLAMA, "up": "mlp.c_fc", "down": "mlp.c_proj"}
GPTJ = {**LLAMA, "module": "transformer.", "embed": "wte", "layer": "h.", "attn_norm": "ln_1", "q": "attn.q_proj",
        "k": "attn.k_proj", "v": "attn.v_proj", "o": "attn.out_proj", "up": "mlp.fc_in", "down": "mlp.fc_out",
        "final": "ln_f"}
OPT = {**LLAMA, "module": "model.decoder.", "positions": "embed_positions", "attn_norm": "self_attn_layer_norm",
       "ffn_norm": "final_layer_norm", "o": "self_attn.out_proj", "up": "fc1", "down": "fc2", "final": "final_layer_norm"}
GLM = {**LLAMA, "gate_up": "mlp.gate_up_proj"}
GLM4 = {**GLM, "after_attn": "post_self_attn_layernorm", "after_ffn": "post_mlp_layernorm"}
OLMO3 = {**LLAMA, "after_attn": "post_attention_layernorm", "after_ffn": "post_feedforward_layernorm"}

# norm: rms, layer, layer1p (weight + 1), plain (without bias), bare (without weight); block: serial, parallel (one norm), two (parallel, two
# norms), after (norms of what is added only); bias: of queries, keys and values; of the attention's output; of the rest.
FAMILIES = {
    "gemma": {"names": LLAMA, "norm": "rms1p", "act": "gelu_pytorch_tanh"},
    "gpt_neox": {"names": NEOX, "norm": "layer", "plain_mlp": True, "bias": (True, True, True)},
    "phi": {"names": PHI, "norm": "layer", "block": "parallel", "plain_mlp": True, "bias": (True, True, True),
            "head_bias": True},
    "starcoder2": {"names": STARCODER, "norm": "layer", "plain_mlp": True},
    "gptj": {"names": GPTJ, "norm": "layer", "block": "parallel", "plain_mlp": True, "bias": (False, False, True),
             "head_bias": True, "interleaved": True},
    "opt": {"names": OPT, "norm": "layer", "plain_mlp": True},
    "cohere": {"names": LLAMA, "norm": "plain", "block": "parallel", "interleaved": True},
    "cohere2": {"names": LLAMA, "norm": "plain", "block": "parallel", "interleaved": True, "every": 4, "global_still": True},
    "glm": {"names": GLM, "interleaved": True},
    "glm4": {"names": GLM4, "interleaved": True},
    "olmo": {"names": LLAMA, "norm": "bare"},
    "olmo3": {"names": OLMO3, "block": "after", "qk": "whole", "every": 4},
    "exaone4": {"names": OLMO3, "block": "after", "qk": "head", "every": 4, "global_still": True},
    "seed_oss": {"names": LLAMA},
    "arcee": {"names": LLAMA, "plain_mlp": True},
    "ernie4_5": {"names": LLAMA, "interleaved": True},
    "nemotron": {"names": LLAMA, "norm": "layer1p", "plain_mlp": True},
    "minicpm": {"names": LLAMA},
    "ministral3": {"names": LLAMA},
}


def sizes(config):
    """Width, heads, heads of keys, elements of a head, feed-forward width, layers, positions."""
    if config["model_type"] == "gptj":
        n = config["n_embd"]
        return (n, config["n_head"], config["n_head"], n // config["n_head"], config.get("n_inner") or 4 * n,
                config["n_layer"], config["n_positions"])
    heads = config["num_attention_heads"]
    dim = config.get("head_dim") or config["hidden_size"] // heads
    return (config["hidden_size"], heads, config.get("num_key_value_heads") or heads, dim,
            config.get("intermediate_size") or config["ffn_dim"], config["num_hidden_layers"], config["max_position_embeddings"])


def epsilon(config):
    names = ("rms_norm_eps", "layer_norm_eps", "norm_epsilon", "norm_eps", "layer_norm_epsilon")
    return next((config[name] for name in names if name in config), 1e-5)


def biases(config):
    """Of queries, keys and values; of the attention's output; of the feed-forward part."""
    kind = config["model_type"]
    if kind == "gpt_neox":
        return (config.get("attention_bias", True),) * 2 + (True,)
    if kind == "opt":
        return (config.get("enable_bias", True),) * 3
    if kind in ("starcoder2", "ernie4_5"):
        return (config.get("use_bias", kind == "starcoder2"),) * 3
    if kind == "seed_oss":
        return config.get("attention_bias", True), config.get("attention_out_bias", False), config.get("mlp_bias", False)
    if kind in ("glm", "glm4"):
        return config.get("attention_bias", kind == "glm4"), False, False
    attention = config.get("attention_bias", False)
    return FAMILIES[kind].get("bias", (attention, attention, config.get("mlp_bias", False)))


def tied(config):
    return config.get("tie_word_embeddings", config["model_type"] in ("gemma", "starcoder2", "cohere", "cohere2", "opt", "ernie4_5"))


def block_of(config):
    if config["model_type"] == "gpt_neox":
        return "two" if config.get("use_parallel_residual", True) else "serial"
    return FAMILIES[config["model_type"]].get("block", "serial")


def window_of(config, layer):
    window, every = config.get("sliding_window") or 0, FAMILIES[config["model_type"]].get("every")
    if not window or not every:
        return window
    if config.get("layer_types"):
        return window if config["layer_types"][layer] == "sliding_attention" else 0
    return window if (layer + 1) % config.get("sliding_window_pattern", every) != 0 else 0


def rotary(config, dim):
    """How many elements of a head turn, and by which base."""
    if config["model_type"] == "gptj":
        return config.get("rotary_dim", 64), 10000.0
    if config["model_type"] == "gpt_neox":
        return int(dim * config.get("rotary_pct", 0.25)), config.get("rotary_emb_base", 10000.0)
    default = 0.5 if config["model_type"] in ("phi", "glm", "glm4", "nemotron") else 1
    return int(dim * config.get("partial_rotary_factor", default)), config.get("rope_theta", config.get("rope_parameters", {}).get("rope_theta", 10000.0))


def relu_squared(x):
    return F.relu(x) ** 2


def forward(config, w, tokens):
    kind = config["model_type"]
    family = FAMILIES[kind]
    names = family["names"]
    width, heads, kv, dim, _, layers, _ = sizes(config)
    linear = lambda x, name: F.linear(x, w[name + ".weight"], w.get(name + ".bias"))

    def norm(x, name):
        how = family.get("norm", "rms")
        if how == "bare":
            return F.layer_norm(x, x.shape[-1:], eps=epsilon(config))
        weight = w[name + ".weight"]
        if how.startswith("rms"):
            return decoders.rms_norm(x, weight + (how == "rms1p"), epsilon(config))
        return F.layer_norm(x, x.shape[-1:], weight + (how == "layer1p"), w.get(name + ".bias"), epsilon(config))

    def queries_keys_values(x, p):
        if "qkv" not in names:
            return [decoders.split_heads(linear(x, p + names[part]), dim) for part in "qkv"]
        each = linear(x, p + names["qkv"]).unflatten(-1, (heads, 3, dim))  # of each head its three
        return [each[..., i, :].transpose(1, 2) for i in range(3)]

    given = config.get("hidden_act") or config.get("activation_function")
    act = relu_squared if given == "relu2" else decoders.activation(family.get("act") or given)

    def feed(x, p):
        if family.get("plain_mlp"):
            return linear(act(linear(x, p + names["up"])), p + names["down"])
        if "gate_up" in names:
            gate, up = linear(x, p + names["gate_up"]).chunk(2, -1)
        else:
            gate, up = linear(x, p + names["gate"]), linear(x, p + names["up"])
        return linear(act(gate) * up, p + names["down"])

    count, theta = rotary(config, dim)
    grow = 1
    x = w[f"{names['module']}{names['embed']}.weight"][tokens]
    if kind == "gemma":
        x = x * math.sqrt(width)
    if kind == "minicpm":
        x, grow = x * config["scale_emb"], config["scale_depth"] / math.sqrt(layers)
    if "positions" in names:
        x = x + w[f"{names['module']}{names['positions']}.weight"][2:2 + tokens.shape[1]]
    for i in range(layers):
        p, window, block = f"{names['module']}{names['layer']}{i}.", window_of(config, i), block_of(config)
        read = x if block == "after" else norm(x, p + names["attn_norm"])
        q, k, v = queries_keys_values(read, p)
        if family.get("qk") == "whole":
            q, k = (decoders.split_heads(norm(decoders.merge_heads(part), p + f"self_attn.{name}_norm"), dim)
                    for part, name in ((q, "q"), (k, "k")))
        if family.get("qk") == "head":
            q, k = norm(q, p + "self_attn.q_norm"), norm(k, p + "self_attn.k_norm")
        still = family.get("global_still") and config.get("sliding_window") and not window
        if "positions" not in names and not still:
            scaling = None if kind == "olmo3" and window else config.get("rope_scaling", config.get("rope_parameters"))
            inverse, magnitude = decoders.frequencies(config, count, theta, scaling)
            q, k = (decoders.rotate(part, inverse, magnitude, family.get("interleaved", False)) for part in (q, k))
        mixed = linear(decoders.merge_heads(decoders.attend(q, k, v, dim ** -0.5, window)), p + names["o"])
        if "after_attn" in names:
            mixed = norm(mixed, p + names["after_attn"])
        if block == "parallel":
            x = x + mixed + feed(read, p)
        elif block == "two":
            x = x + mixed + feed(norm(x, p + names["ffn_norm"]), p)
        else:
            x = x + mixed * grow
            fed = feed(x if block == "after" else norm(x, p + names["ffn_norm"]), p)
            x = x + (norm(fed, p + names["after_ffn"]) if "after_ffn" in names else fed) * grow
    x = norm(x, names["module"] + names["final"])
    head = f"{names['module']}{names['embed']}" if tied(config) else names["head"]
    if kind == "minicpm":
        x = x / (width / config["dim_model_base"])
    return F.linear(x, w[head + ".weight"], w.get(names["head"] + ".bias")) * config.get(
        "logit_scale", 0.0625 if kind.startswith("cohere") else 1)


def random_weights(config, seed):
    torch.manual_seed(seed)
    family = FAMILIES[config["model_type"]]
    names, how = family["names"], family.get("norm", "rms")
    width, heads, kv, dim, ffn, layers, positions = sizes(config)
    out = {}

    def add(name, rows, columns, bias=False):
        out[name + ".weight"] = torch.randn(rows, columns) * columns ** -0.5
        if bias:
            out[name + ".bias"] = torch.randn(rows) * 0.2

    def norm(name, size=width):
        if how == "bare":
            return
        out[name + ".weight"] = torch.randn(size) * 0.3 + (0 if how.endswith("1p") else 1)
        if how in ("layer", "layer1p"):
            out[name + ".bias"] = torch.randn(size) * 0.2

    of_qkv, of_output, of_rest = biases(config)
    add(names["module"] + names["embed"], config["vocab_size"], width)
    if "positions" in names:
        add(names["module"] + names["positions"], positions + 2, width)
    for i in range(layers):
        p, block = f"{names['module']}{names['layer']}{i}.", block_of(config)
        if block != "after":
            norm(p + names["attn_norm"])
        if block in ("serial", "two"):
            norm(p + names["ffn_norm"])
        for name in ("after_attn", "after_ffn"):
            if name in names:
                norm(p + names[name])
        if "qkv" in names:
            add(p + names["qkv"], 3 * heads * dim, width, of_qkv)
        else:
            for name, count in (("q", heads), ("k", kv), ("v", kv)):
                add(p + names[name], count * dim, width, of_qkv)
        if family.get("qk") == "whole":
            norm(p + "self_attn.q_norm", heads * dim)
            norm(p + "self_attn.k_norm", kv * dim)
        if family.get("qk") == "head":
            norm(p + "self_attn.q_norm", dim)
            norm(p + "self_attn.k_norm", dim)
        add(p + names["o"], width, heads * dim, of_output)
        if "gate_up" in names:
            add(p + names["gate_up"], 2 * ffn, width)
        else:
            if not family.get("plain_mlp"):
                add(p + names["gate"], ffn, width, of_rest)
            add(p + names["up"], ffn, width, of_rest)
        add(p + names["down"], width, ffn, of_rest)
    norm(names["module"] + names["final"])
    if not tied(config):
        add(names["head"], config["vocab_size"], width)
    if family.get("head_bias"):
        out[names["head"] + ".bias"] = torch.randn(config["vocab_size"]) * 0.2
    return out

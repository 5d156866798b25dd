"""Reference encoders, BERT and its kin, in plain torch with Hugging Face's names. A model is a dictionary of tensors under
the names of its folder, and its config.json."""

import math

import torch
import torch.nn.functional as F

import decoders

PREFIX = {"bert": "bert.", "roberta": "roberta.", "xlm-roberta": "roberta.", "camembert": "roberta.",
          "distilbert": "distilbert.", "electra": "electra.", "modernbert": "model.", "gemma3_text": "model.",
          "nomic_bert": "bert."}
ACTIVATIONS = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu,
               "gelu_new": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))}


def sizes(config):
    """Width, heads, layers, feed-forward width, activation."""
    if config["model_type"] == "distilbert":
        return (config["dim"], config["n_heads"], config["n_layers"], config["hidden_dim"], config["activation"])
    return (config["hidden_size"], config["num_attention_heads"], config["num_hidden_layers"],
            config["intermediate_size"], config.get("hidden_act") or config["hidden_activation"])


def head_of(config):
    return config.get("architectures", ["Model"])[0].partition("For")[2]


def layer_names(config):
    """Modules of a layer: query, key, value, output, its norm, up, down, its norm."""
    if config["model_type"] == "distilbert":
        return ("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin", "sa_layer_norm",
                "ffn.lin1", "ffn.lin2", "output_layer_norm")
    return ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
            "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm")


def layers_name(config):
    return "transformer.layer." if config["model_type"] == "distilbert" else "encoder.layer."


def is_shifted(config):
    return config["model_type"] in ("roberta", "xlm-roberta", "camembert")


def window_of(config, layer):
    """How far a token of the layer sees to either side; 0: everything."""
    if config["model_type"] == "gemma3_text":
        local = (layer + 1) % config.get("_sliding_window_pattern", 6) != 0
        return config["sliding_window"] // 2 if local else 0
    if "layer_types" in config:
        local = config["layer_types"][layer] == "sliding_attention"
    else:
        local = layer % config.get("global_attn_every_n_layers", 3) != 0
    return config.get("local_attention", 128) // 2 if local else 0


def modern_shapes(config, alone):
    """ModernBERT's tensors, and those of an EmbeddingGemma."""
    width, _, layers, ffn, _ = sizes(config)
    prefix = "" if alone else "model."
    out = {}

    def linear(name, rows, columns, bias):
        out[f"{name}.weight"] = (rows, columns)
        if bias:
            out[f"{name}.bias"] = (rows,)

    def norm(name, size=width):
        out[f"{name}.weight"] = (size,)
        if config.get("norm_bias"):
            out[f"{name}.bias"] = (size,)

    if config["model_type"] == "gemma3_text":
        dim, kv = config["head_dim"], config["num_key_value_heads"]
        linear(f"{prefix}embed_tokens", config["vocab_size"], width, False)
        for i in range(layers):
            p, bias = f"{prefix}layers.{i}.", config.get("attention_bias", False)
            for name in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
                norm(f"{p}{name}_layernorm")
            for name, heads in (("q", config["num_attention_heads"]), ("k", kv), ("v", kv)):
                linear(f"{p}self_attn.{name}_proj", heads * dim, width, bias)
            linear(f"{p}self_attn.o_proj", width, config["num_attention_heads"] * dim, bias)
            norm(f"{p}self_attn.q_norm", dim)
            norm(f"{p}self_attn.k_norm", dim)
            for name, rows, columns in (("gate", ffn, width), ("up", ffn, width), ("down", width, ffn)):
                linear(f"{p}mlp.{name}_proj", rows, columns, False)
        norm(f"{prefix}norm")
        return out
    linear(f"{prefix}embeddings.tok_embeddings", config["vocab_size"], width, False)
    norm(f"{prefix}embeddings.norm")
    for i in range(layers):
        p, bias = f"{prefix}layers.{i}.", config.get("attention_bias", False)
        if i != 0:
            norm(f"{p}attn_norm")
        linear(f"{p}attn.Wqkv", 3 * width, width, bias)
        linear(f"{p}attn.Wo", width, width, bias)
        norm(f"{p}mlp_norm")
        linear(f"{p}mlp.Wi", 2 * ffn, width, config.get("mlp_bias", False))
        linear(f"{p}mlp.Wo", width, ffn, config.get("mlp_bias", False))
    norm(f"{prefix}final_norm")
    head = head_of(config)
    if head:
        linear("head.dense", width, width, config.get("classifier_bias", False))
        norm("head.norm")
    if head == "MaskedLM" and config.get("decoder_bias", True):
        out["decoder.bias"] = (config["vocab_size"],)
    if head.endswith("Classification"):
        linear("classifier", len(config["id2label"]), width, True)
    return out


def see(q, k, v, scale, mask, reach):
    """Both ways, padding left out; q, k and v are [batch, heads, seq, dim]. `reach`: places to either side; 0: all."""
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    places = torch.arange(q.shape[2])
    hidden = (mask[:, None, None, :] == 0).expand(-1, 1, q.shape[2], -1)
    if reach:
        hidden = hidden | ((places[None] - places[:, None]).abs() > reach)
    # A row of padding may see nothing at all; it is not looked at.
    return (q @ k.transpose(-1, -2) * scale).masked_fill(hidden, -1e30).softmax(-1) @ v


def turned(x, theta):
    return decoders.rotate(x, *decoders.frequencies({}, x.shape[-1], theta, None))


def modern_bert(config, weights, tokens, mask):
    width, heads, layers, _, activation = sizes(config)
    prefix = "" if "final_norm.weight" in weights else "model."
    act, last = decoders.activation(activation), decoders.activation(config.get("classifier_activation", "gelu"))

    def linear(x, name):
        return F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights.get(f"{name}.bias"), config["norm_eps"])

    table = weights[f"{prefix}embeddings.tok_embeddings.weight"]
    x = norm(table[tokens], f"{prefix}embeddings.norm")
    for i in range(layers):
        p, reach = f"{prefix}layers.{i}.", window_of(config, i)
        theta = config.get("local_rope_theta", 1e4) if reach else config.get("global_rope_theta", 160000.0)
        q, k, v = (decoders.split_heads(part, width // heads)
                   for part in linear(norm(x, f"{p}attn_norm") if i else x, f"{p}attn.Wqkv").chunk(3, -1))
        mixed = see(turned(q, theta), turned(k, theta), v, (width // heads) ** -0.5, mask, reach)
        x = x + linear(decoders.merge_heads(mixed), f"{p}attn.Wo")
        given, gate = linear(norm(x, f"{p}mlp_norm"), f"{p}mlp.Wi").chunk(2, -1)
        x = x + linear(act(given) * gate, f"{p}mlp.Wo")
    x = norm(x, f"{prefix}final_norm")
    out, head = {"last_hidden_state": x}, head_of(config)
    dense = lambda y: norm(last(linear(y, "head.dense")), "head.norm")
    if head == "MaskedLM":
        out["logits"] = F.linear(dense(x), table, weights.get("decoder.bias"))
    elif head == "TokenClassification":
        out["logits"] = linear(dense(x), "classifier")
    elif head == "SequenceClassification":
        share = mask[..., None].to(x.dtype)
        mean = config.get("classifier_pooling", "cls") == "mean"
        out["logits"] = linear(dense((x * share).sum(1) / share.sum(1) if mean else x[:, 0]), "classifier")
    return out


def embedding_gemma(config, weights, tokens, mask):
    width, _, layers, _, _ = sizes(config)
    prefix = "" if "norm.weight" in weights else "model."
    norm = lambda x, name: decoders.rms_norm(x, weights[f"{name}.weight"] + 1, config["rms_norm_eps"])
    linear = lambda x, name: F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))
    act = decoders.activation(config["hidden_activation"])
    x = weights[f"{prefix}embed_tokens.weight"][tokens] * math.sqrt(width)
    for i in range(layers):
        p, reach = f"{prefix}layers.{i}.", window_of(config, i)
        theta = config["rope_local_base_freq"] if reach else config["rope_theta"]
        h = norm(x, f"{p}input_layernorm")
        q, k, v = (decoders.split_heads(linear(h, f"{p}self_attn.{name}_proj"), config["head_dim"]) for name in "qkv")
        q, k = turned(norm(q, f"{p}self_attn.q_norm"), theta), turned(norm(k, f"{p}self_attn.k_norm"), theta)
        mixed = see(q, k, v, config["query_pre_attn_scalar"] ** -0.5, mask, reach)
        x = x + norm(linear(decoders.merge_heads(mixed), f"{p}self_attn.o_proj"), f"{p}post_attention_layernorm")
        h = norm(x, f"{p}pre_feedforward_layernorm")
        h = linear(act(linear(h, f"{p}mlp.gate_proj")) * linear(h, f"{p}mlp.up_proj"), f"{p}mlp.down_proj")
        x = x + norm(h, f"{p}post_feedforward_layernorm")
    return {"last_hidden_state": norm(x, f"{prefix}norm")}


def nomic_shapes(config, alone):
    prefix, width, ffn = "" if alone else "bert.", config["n_embd"], config["n_inner"]
    out = {}

    def linear(name, rows, columns, bias):
        out[f"{name}.weight"] = (rows, columns)
        if bias:
            out[f"{name}.bias"] = (rows,)

    def norm(name):
        out[f"{name}.weight"] = out[f"{name}.bias"] = (width,)

    multiple = config.get("pad_vocab_size_multiple", 1)
    linear(f"{prefix}embeddings.word_embeddings", -(-config["vocab_size"] // multiple) * multiple, width, False)
    linear(f"{prefix}embeddings.token_type_embeddings", config["type_vocab_size"], width, False)
    norm(f"{prefix}emb_ln")
    for i in range(config["n_layer"]):
        p = f"{prefix}encoder.layers.{i}."
        linear(p + "attn.Wqkv", 3 * width, width, config["qkv_proj_bias"])
        linear(p + "attn.out_proj", width, width, config["qkv_proj_bias"])
        norm(p + "norm1")
        for name, rows, columns in (("fc11", ffn, width), ("fc12", ffn, width), ("fc2", width, ffn)):
            linear(f"{p}mlp.{name}", rows, columns, config["mlp_fc1_bias"])
        norm(p + "norm2")
    return out


def nomic_bert(config, weights, tokens, mask, types):
    prefix, width, heads = "" if "emb_ln.weight" in weights else "bert.", config["n_embd"], config["n_head"]
    dim = width // heads
    linear = lambda x, name: F.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))
    norm = lambda x, name: F.layer_norm(x, (width,), weights[f"{name}.weight"], weights[f"{name}.bias"],
                                        config["layer_norm_epsilon"])
    act = {"swiglu": F.silu, "geglu": F.gelu}[config["activation_function"]]
    count = int(dim * config.get("rotary_emb_fraction", 1))
    turn = lambda x: decoders.rotate(x, *decoders.frequencies({}, count, config["rotary_emb_base"], None))
    types = torch.zeros_like(tokens) if types is None else types
    x = weights[f"{prefix}embeddings.word_embeddings.weight"][tokens]
    x = norm(x + weights[f"{prefix}embeddings.token_type_embeddings.weight"][types], f"{prefix}emb_ln")
    for i in range(config["n_layer"]):
        p = f"{prefix}encoder.layers.{i}."
        q, k, v = (decoders.split_heads(part, dim) for part in linear(x, p + "attn.Wqkv").chunk(3, -1))
        mixed = decoders.merge_heads(see(turn(q), turn(k), v, dim ** -0.5, mask, 0))
        x = norm(x + linear(mixed, p + "attn.out_proj"), p + "norm1")
        h = linear(x, p + "mlp.fc11") * act(linear(x, p + "mlp.fc12"))
        x = norm(x + linear(h, p + "mlp.fc2"), p + "norm2")
    return {"last_hidden_state": x}


def shapes(config, alone, pooler):
    if config["model_type"] == "nomic_bert":
        return nomic_shapes(config, alone)
    if config["model_type"] in ("modernbert", "gemma3_text"):
        return modern_shapes(config, alone)
    width, _, layers, ffn, _ = sizes(config)
    kind, head = config["model_type"], head_of(config)
    prefix = "" if alone else PREFIX[kind]
    narrow = config.get("embedding_size", width)
    out = {}

    def linear(name, rows, columns):
        out[f"{name}.weight"], out[f"{name}.bias"] = (rows, columns), (rows,)

    def norm(name, size):
        out[f"{name}.weight"], out[f"{name}.bias"] = (size,), (size,)

    out[f"{prefix}embeddings.word_embeddings.weight"] = (config["vocab_size"], narrow)
    out[f"{prefix}embeddings.position_embeddings.weight"] = (config["max_position_embeddings"], narrow)
    if kind != "distilbert":
        out[f"{prefix}embeddings.token_type_embeddings.weight"] = (config["type_vocab_size"], narrow)
    norm(f"{prefix}embeddings.LayerNorm", narrow)
    if narrow != width:
        linear(f"{prefix}embeddings_project", width, narrow)
    q, k, v, o, o_norm, up, down, down_norm = layer_names(config)
    for i in range(layers):
        layer = f"{prefix}{layers_name(config)}{i}."
        for name in (q, k, v, o):
            linear(layer + name, width, width)
        norm(layer + o_norm, width)
        linear(layer + up, ffn, width)
        linear(layer + down, width, ffn)
        norm(layer + down_norm, width)
    if pooler:
        linear(f"{prefix}pooler.dense", width, width)
    classes = len(config.get("id2label", "ab"))
    if head == "SequenceClassification":
        first = {"bert": None, "distilbert": "pre_classifier"}.get(kind, "classifier.dense")
        if first:
            linear(first, width, width)
        linear("classifier" if kind in ("bert", "distilbert") else "classifier.out_proj", classes, width)
    elif head == "TokenClassification":
        linear("classifier", classes, width)
    elif head == "MaskedLM":
        dense, after, bias = masked_names(config)
        linear(dense, width, width)
        norm(after, width)
        out[bias] = (config["vocab_size"],)
    return out


def masked_names(config):
    if config["model_type"] == "bert":
        start = "cls.predictions."
        return start + "transform.dense", start + "transform.LayerNorm", start + "bias"
    if config["model_type"] == "distilbert":
        return "vocab_transform", "vocab_layer_norm", "vocab_projector.bias"
    return "lm_head.dense", "lm_head.layer_norm", "lm_head.bias"


def random_weights(config, seed, alone=False, pooler=False):
    torch.manual_seed(seed)
    out = {}
    for name, shape in shapes(config, alone, pooler).items():
        norm = ("norm" in name.lower() or "emb_ln" in name) and name.endswith(".weight")
        out[name] = 1 + 0.2 * torch.randn(shape) if norm else torch.randn(shape) * (0.3 if len(shape) == 1 else 0.5)
    return out


def forward(config, weights, tokens, mask=None, types=None):
    """last_hidden_state, and pooler_output and logits where there are such."""
    kind = config["model_type"]
    if kind == "nomic_bert":
        return nomic_bert(config, weights, tokens, torch.ones_like(tokens) if mask is None else mask, types)
    if kind in ("modernbert", "gemma3_text"):
        mask = torch.ones_like(tokens) if mask is None else mask
        return (modern_bert if kind == "modernbert" else embedding_gemma)(config, weights, tokens, mask)
    width, heads, layers, _, activation = sizes(config)
    act, kind, head = ACTIVATIONS[activation], config["model_type"], head_of(config)
    alone = "embeddings.word_embeddings.weight" in weights
    prefix = "" if alone else PREFIX[kind]
    epsilon = 1e-12 if kind == "distilbert" else config["layer_norm_eps"]
    mask = torch.ones_like(tokens) if mask is None else mask

    def linear(x, name):
        return F.linear(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], weights[f"{name}.weight"], weights[f"{name}.bias"], epsilon)

    padding = config.get("pad_token_id", 1)
    places = torch.cumsum(mask, 1) * mask + padding if is_shifted(config) else torch.arange(tokens.shape[1])[None]
    x = weights[f"{prefix}embeddings.word_embeddings.weight"][tokens]
    x = x + weights[f"{prefix}embeddings.position_embeddings.weight"][places]
    if kind != "distilbert":
        types = torch.zeros_like(tokens) if types is None else types
        x = x + weights[f"{prefix}embeddings.token_type_embeddings.weight"][types]
    x = norm(x, f"{prefix}embeddings.LayerNorm")
    if x.shape[-1] != width:
        x = linear(x, f"{prefix}embeddings_project")
    q, k, v, o, o_norm, up, down, down_norm = layer_names(config)
    hidden = mask[:, None, None, :] == 0
    for i in range(layers):
        layer = f"{prefix}{layers_name(config)}{i}."
        parts = [linear(x, layer + name).unflatten(-1, (heads, width // heads)).transpose(1, 2) for name in (q, k, v)]
        scores = parts[0] @ parts[1].transpose(-1, -2) / math.sqrt(width // heads)
        mixed = scores.masked_fill(hidden, -1e30).softmax(-1) @ parts[2]
        x = norm(x + linear(mixed.transpose(1, 2).flatten(2), layer + o), layer + o_norm)
        x = norm(x + linear(act(linear(x, layer + up)), layer + down), layer + down_norm)
    out = {"last_hidden_state": x}
    if f"{prefix}pooler.dense.weight" in weights:
        out["pooler_output"] = torch.tanh(linear(x[:, 0], f"{prefix}pooler.dense"))
    if head == "SequenceClassification":
        first = {"bert": lambda: out["pooler_output"],
                 "distilbert": lambda: F.relu(linear(x[:, 0], "pre_classifier")),
                 "electra": lambda: F.gelu(linear(x[:, 0], "classifier.dense"))
                 }.get(kind, lambda: torch.tanh(linear(x[:, 0], "classifier.dense")))()
        out["logits"] = linear(first, "classifier" if kind in ("bert", "distilbert") else "classifier.out_proj")
    elif head == "TokenClassification":
        out["logits"] = linear(x, "classifier")
    elif head == "MaskedLM":
        dense, after, bias = masked_names(config)
        masked = (act if kind in ("bert", "distilbert") else F.gelu)(linear(x, dense))
        matrix = weights[f"{prefix}embeddings.word_embeddings.weight"]
        out["logits"] = F.linear(norm(masked, after), matrix, weights[bias])
    return out

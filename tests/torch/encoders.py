"""Reference encoders, BERT and its kin, in plain torch with Hugging Face's names. A model is a dictionary of tensors under
the names of its folder, and its config.json."""

import math

import torch
import torch.nn.functional as F

PREFIX = {"bert": "bert.", "roberta": "roberta.", "xlm-roberta": "roberta.", "camembert": "roberta.",
          "distilbert": "distilbert.", "electra": "electra."}
ACTIVATIONS = {"gelu": F.gelu, "relu": F.relu, "silu": F.silu,
               "gelu_new": lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))}


def sizes(config):
    """Width, heads, layers, feed-forward width, activation."""
    if config["model_type"] == "distilbert":
        return (config["dim"], config["n_heads"], config["n_layers"], config["hidden_dim"], config["activation"])
    return (config["hidden_size"], config["num_attention_heads"], config["num_hidden_layers"],
            config["intermediate_size"], config["hidden_act"])


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


def shapes(config, alone, pooler):
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
        norm = "norm" in name.lower() and name.endswith(".weight")
        out[name] = 1 + 0.2 * torch.randn(shape) if norm else torch.randn(shape) * (0.3 if len(shape) == 1 else 0.5)
    return out


def forward(config, weights, tokens, mask=None, types=None):
    """last_hidden_state, and pooler_output and logits where there are such."""
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

"""Random legal configurations of language models and encoders, converted and compared with plain PyTorch.

    fuzz_configs.py GRAFT [--minutes N] [--seed N] [--family NAME]     (run with a Python that has torch)

Each case is a configuration with random weights. Its logits by `graft convert` and `graft run` must be those of
tests/torch/decoders.py or encoders.py in double precision. A decoder is also exported as a folder and as a GGUF file; each
either gives the same logits or is refused with a sentence, which is counted. A seed gives the same cases each time.
Prints the cases, the refusals and every difference with its configuration. Exit status: 0 none differs, 1 some do, 77
PyTorch is not installed.
"""

import argparse
import collections
import json
import os
import random
import sys
import tempfile
import time

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests", part) for part in ("torch", "cli")]

import decoder_parity
import decoders
import encoders
import more_decoders
import parity
from parity import error, graft

TOLERANCE = 1e-4  # f32 against f64, as tests/torch/parity.py has it
DECODERS = ("llama", "mistral", "qwen2", "qwen3", "smollm3", "granite", "olmo2", "stablelm", "gemma2", "gemma3_text", "phi3",
            "falcon", "gpt2", *more_decoders.FAMILIES)
ENCODERS = ("bert", "roberta", "xlm-roberta", "camembert", "distilbert", "electra")
# Fields that may be there and change nothing.
DECORATION = {"torch_dtype": "float32", "transformers_version": "4.57.1", "use_cache": False, "initializer_range": 0.01,
              "bos_token_id": 1, "eos_token_id": [2, 3], "attention_dropout": 0.1, "_name_or_path": "x/y", "rope_unknown": None,
              "auto_map": {"AutoModel": "a.B"}, "pad_token_id": 0}


def scaling(pick, turned, context):
    old = pick.choice((16, 32, 100))
    kind = pick.choice(("none", "none", "default", "linear", "llama3", "yarn", "yarn", "dynamic"))
    name = pick.choice(("rope_type", "type"))
    if kind == "none":
        return None
    if kind == "default":
        return {name: kind}
    if kind == "dynamic":
        return {name: kind, "factor": 2.0}
    out = {name: kind, "factor": pick.choice((1.5, 2.0, 4, 8.0))}
    if kind == "llama3":
        out.update(low_freq_factor=pick.choice((1.0, 0.5)), high_freq_factor=pick.choice((4.0, 2.0)))
    if kind != "linear":
        out["original_max_position_embeddings"] = old
    if kind == "yarn":
        optional = {"beta_fast": pick.choice((32.0, 8.0, 4)), "beta_slow": pick.choice((1.0, 2.0)),
                    "truncate": pick.random() < 0.5, "attention_factor": pick.choice((1.0, 1.3))}
        if "attention_factor" not in (chosen := pick.sample(sorted(optional), pick.randint(0, 4))) and pick.random() < 0.3:
            out.update(mscale=1.5, mscale_all_dim=0.8)
        out.update({name: optional[name] for name in chosen})
    return out


def decoder_config(pick, kind):
    heads = pick.choice((1, 2, 3, 4, 6))
    kv = pick.choice([n for n in range(1, heads + 1) if heads % n == 0])
    dim = pick.choice((4, 8, 16) if kind in ("phi3", "stablelm") else (4, 8, 10, 16))  # a whole number of pairs turns
    layers = pick.randint(1, 7)
    if kind == "gpt2":
        config = {"n_embd": heads * dim, "n_head": heads, "n_layer": layers, "n_positions": pick.choice((16, 33)),
                  "vocab_size": 37, "layer_norm_epsilon": pick.choice((1e-5, 1e-3)),
                  "activation_function": pick.choice(("gelu_new", "gelu", "relu")), "n_inner": pick.choice((None, 20))}
        config.update(pick.choice(({}, {"scale_attn_weights": False}, {"tie_word_embeddings": False})))
        return config
    theta = pick.choice((10000.0, 500.0, 1e6))
    if kind == "falcon":
        return {"hidden_size": heads * dim, "num_hidden_layers": layers, "num_attention_heads": heads, "vocab_size": 37,
                "layer_norm_epsilon": pick.choice((1e-5, 1e-3)), "multi_query": True, "parallel_attn": pick.random() < 0.5,
                "bias": pick.random() < 0.5, "alibi": False, "new_decoder_architecture": False, "rope_theta": theta,
                "tie_word_embeddings": pick.random() < 0.5, "ffn_hidden_size": pick.choice((None, 20)),
                "max_position_embeddings": 64, "rope_scaling": scaling(pick, dim, 64)}
    config = {"hidden_size": heads * dim, "intermediate_size": pick.choice((12, 33)), "num_hidden_layers": layers,
              "num_attention_heads": heads, "num_key_value_heads": kv, "vocab_size": 37, "max_position_embeddings": 64,
              "rms_norm_eps": pick.choice((1e-5, 1e-6, 1e-3)), "rope_theta": theta, "hidden_act": pick.choice(("silu", "silu", "gelu", "relu")),
              "tie_word_embeddings": pick.random() < 0.5}
    own = pick.choice((4, 8, 12))
    if kind == "qwen3" or (kind != "stablelm" and pick.random() < 0.4):
        dim = config["head_dim"] = own
    if kind in ("llama", "qwen3", "smollm3", "granite", "olmo2", "gemma2", "gemma3_text"):
        config["attention_bias"] = pick.random() < 0.4
    if kind in ("llama", "smollm3", "granite"):
        config["mlp_bias"] = pick.random() < 0.4
    config["rope_scaling"] = scaling(pick, dim, 64)
    window = pick.choice((1, 3, 5, 40))
    if kind in ("mistral", "phi3"):
        config["sliding_window"] = pick.choice((None, window))
    if kind == "mistral" and pick.random() < 0.3:
        config["use_sliding_window"] = pick.random() < 0.5
    if kind in ("qwen2", "qwen3", "smollm3"):
        config.update(sliding_window=window, use_sliding_window=pick.random() < 0.7)
    if kind in ("qwen2", "qwen3"):
        config["max_window_layers"] = pick.randint(0, layers)
    if kind in ("qwen2", "qwen3", "smollm3", "gemma2", "gemma3_text") and pick.random() < 0.4:
        config["layer_types"] = [pick.choice(("sliding_attention", "full_attention")) for _ in range(layers)]
    if kind == "smollm3":
        config.update(pick.choice(({}, {"no_rope_layer_interval": 2}, {"no_rope_layers": [pick.randint(0, 1) for _ in range(layers)]})))
    if kind == "granite":
        config.update(embedding_multiplier=pick.choice((1.0, 3.0)), residual_multiplier=pick.choice((1, 0.4)),
                      attention_multiplier=pick.choice((0.25, 1.0)), logits_scaling=pick.choice((1, 2.0)))
    if kind == "stablelm":
        config.update(layer_norm_eps=config.pop("rms_norm_eps"), use_qkv_bias=pick.random() < 0.5,
                      use_parallel_residual=pick.random() < 0.5, partial_rotary_factor=pick.choice((0.5, 1.0)))
    if kind == "phi3":
        config["partial_rotary_factor"] = pick.choice((0.5, 1))
        turned = int(dim * config["partial_rotary_factor"])
        config["rope_scaling"] = None
        if pick.random() < 0.5:
            config.update(original_max_position_embeddings=32, rope_scaling={
                "type": pick.choice(("longrope", "su")), "short_factor": [1 + 0.2 * i for i in range(turned // 2)],
                "long_factor": [1 + 2.0 * i for i in range(turned // 2)]})
    if kind.startswith("gemma"):
        del config["hidden_act"]
        config.update(hidden_activation=pick.choice(("gelu_pytorch_tanh", "gelu", "silu")), sliding_window=window,
                      query_pre_attn_scalar=pick.choice((dim, 7)), head_dim=dim,
                      attn_logit_softcapping=pick.choice((None, 2.0)), final_logit_softcapping=pick.choice((None, 3.0)))
    if kind == "gemma3_text":
        config.update(sliding_window_pattern=pick.choice((2, 6)), rope_local_base_freq=pick.choice((10000.0, 500.0)))
    return config


def more_config(pick, kind):
    """Of a family of more_decoders.py: one of the parity test's configurations with other sizes, numbers and flags."""
    config = dict(pick.choice([c for c in decoder_parity.MORE.values() if c["model_type"] == kind]))
    layers = next(name for name in ("num_hidden_layers", "n_layer") if name in config)
    if "layer_types" not in config:
        config[layers] = pick.randint(1, 5)
    for name in ("intermediate_size", "ffn_dim", "n_inner"):
        if name in config:
            config[name] = pick.choice((12, 33))
    for name in ("rms_norm_eps", "layer_norm_eps", "norm_epsilon", "norm_eps", "layer_norm_epsilon"):
        if name in config:
            config[name] = pick.choice((1e-5, 1e-6, 1e-3))
    for name in ("rope_theta", "rotary_emb_base"):
        if name in config:
            config[name] = pick.choice((10000.0, 500.0, 1e6))
    for name in ("attention_bias", "attention_out_bias", "mlp_bias", "use_bias", "enable_bias", "use_parallel_residual",
                 "tie_word_embeddings"):
        if name in config and pick.random() < 0.5:
            config[name] = pick.random() < 0.5
    if config.get("sliding_window"):
        config["sliding_window"] = pick.choice((1, 3, 5, 40))
    if "hidden_act" in config and kind != "gemma":
        config["hidden_act"] = pick.choice(("silu", "gelu", "relu", "gelu_new", *(("relu2",) if kind in ("arcee", "nemotron") else ())))
    return config


def encoder_config(pick, kind):
    heads = pick.choice((1, 2, 4))
    width = heads * pick.choice((4, 6))
    act = pick.choice(("gelu", "relu", "silu", "gelu_new"))
    layers, ffn = pick.randint(1, 3), pick.choice((12, 33))
    head = pick.choice(("Model", "ForSequenceClassification", "ForTokenClassification", "ForMaskedLM"))
    if kind == "electra" and head == "ForMaskedLM":
        head = "Model"
    names = {"bert": "Bert", "roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert",
             "distilbert": "DistilBert", "electra": "Electra"}
    common = {"architectures": [names[kind] + head], "vocab_size": 37, "max_position_embeddings": 32,
              "pad_token_id": pick.choice((0, 1)), "id2label": {"0": "a", "1": "b", "2": "c"}}
    if kind == "distilbert":
        return {**common, "dim": width, "n_heads": heads, "n_layers": layers, "hidden_dim": ffn, "activation": act}
    out = {**common, "hidden_size": width, "num_attention_heads": heads, "num_hidden_layers": layers,
           "intermediate_size": ffn, "hidden_act": act, "type_vocab_size": pick.choice((1, 2)),
           "layer_norm_eps": pick.choice((1e-12, 1e-3))}
    if kind == "electra":
        out["embedding_size"] = pick.choice((width, 6))
    return out


def decorated(pick, config):
    out = dict(config)
    for name in pick.sample(sorted(DECORATION), pick.randint(0, 4)):
        out.setdefault(name, DECORATION[name])
    items = list(out.items())
    pick.shuffle(items)
    return dict(items)


def run(path, folder, inputs):
    flags = []
    for name, value in inputs.items():
        np.save(f"{folder}/{name}.npy", value.numpy().astype(np.int32))
        flags += ["--input", f"{name}={folder}/{name}.npy"]
    graft("run", path, *flags, "--out", f"{folder}/out")
    return {name[:-4]: np.load(f"{folder}/out/{name}") for name in os.listdir(f"{folder}/out")}


def write(folder, config, weights):
    os.makedirs(folder)
    with open(f"{folder}/config.json", "w") as out:
        json.dump(config, out)
    decoders.save_safetensors(f"{folder}/model.safetensors", weights)


class Counts:
    def __init__(self):
        self.cases, self.refused, self.differ = collections.Counter(), collections.Counter(), []

    def compare(self, what, config, actual, expected):
        worst = max(error(actual[name], expected[name]) for name in expected)
        if not worst <= TOLERANCE:
            self.differ.append((what, worst, config))
            print(f"DIFFERS by {worst:.3g}, {what}: {json.dumps(config)}", flush=True)


def check_decoder(counts, pick, kind, config):
    weights = decoders.random_weights(config, seed=pick.randrange(1 << 30))
    double = {name: tensor.double() for name, tensor in weights.items()}
    tokens = torch.randint(0, 37, (2, pick.choice((5, 13))))
    expected = {"logits": decoders.forward(config, double, tokens).numpy()}
    bare = pick.random() < 0.2 and "lm_head.weight" not in weights and kind != "gpt_neox"
    stored = {name.split(".", 1)[1]: tensor for name, tensor in weights.items()} if bare else weights
    with tempfile.TemporaryDirectory() as folder:
        write(f"{folder}/model", decorated(pick, config), stored)
        graft("convert", f"{folder}/model", "-o", f"{folder}/a.graft")
        counts.compare(kind, config, run(f"{folder}/a.graft", folder, {"tokens": tokens}), expected)
        for kind_of, output in (("folder", "back"), ("GGUF", "a.gguf")):
            try:
                graft("export", f"{folder}/a.graft", "-o", f"{folder}/{output}")
            except RuntimeError as refused:
                sentence = str(refused).strip().splitlines()[-1]
                counts.refused[f"{kind_of}: {sentence.split(' was not exported: ')[-1]}"] += 1
                continue
            graft("convert", f"{folder}/{output}", "-o", f"{folder}/b.graft")
            counts.compare(f"{kind} by {kind_of}", config, run(f"{folder}/b.graft", folder, {"tokens": tokens}), expected)


def check_encoder(counts, pick, kind, config):
    pooler = kind != "distilbert" and config["architectures"][0].endswith(("Model", "SequenceClassification"))
    pooler = pooler and kind in ("bert",)
    alone = config["architectures"][0].endswith("Model") and pick.random() < 0.5
    weights = encoders.random_weights(config, pick.randrange(1 << 30), alone, pooler)
    tokens = torch.randint(2, 37, (2, 9))
    mask = torch.ones_like(tokens)
    inputs = {"tokens": tokens, "attention_mask": mask}
    types = None
    if config.get("type_vocab_size", 1) > 1:
        types = inputs["token_type_ids"] = torch.randint(0, 2, tokens.shape)
    double = {name: tensor.double() for name, tensor in weights.items()}
    expected = {name: value.numpy() for name, value in encoders.forward(config, double, tokens, mask, types).items()}
    with tempfile.TemporaryDirectory() as folder:
        write(f"{folder}/model", decorated(pick, config), weights)
        graft("convert", f"{folder}/model", "-o", f"{folder}/a.graft")
        counts.compare(kind, config, run(f"{folder}/a.graft", folder, inputs), expected)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("graft")
    arguments.add_argument("--minutes", type=float, default=10)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--family", choices=DECODERS + ENCODERS)
    given = arguments.parse_args()
    parity.GRAFT = os.path.abspath(given.graft)
    counts, end, number = Counts(), time.monotonic() + 60 * given.minutes, given.seed
    while time.monotonic() < end:
        pick = random.Random(number)
        torch.manual_seed(number)
        kind = given.family or pick.choice(DECODERS + ENCODERS)
        make = encoder_config if kind in ENCODERS else more_config if kind in more_decoders.FAMILIES else decoder_config
        config = {"model_type": kind, **make(pick, kind)}
        try:
            (check_encoder if kind in ENCODERS else check_decoder)(counts, pick, kind, config)
        except RuntimeError as failed:
            counts.differ.append((kind, str(failed), config))
            print(f"FAILED, seed {number}: {str(failed).strip().splitlines()[-1]} {json.dumps(config)}", flush=True)
        counts.cases[kind] += 1
        number += 1
    print(f"{sum(counts.cases.values())} cases, seeds {given.seed} to {number - 1}: {dict(counts.cases)}")
    for sentence, count in counts.refused.most_common():
        print(f"  {count} exports refused: {sentence}")
    print(f"{len(counts.differ)} differ.")
    return 1 if counts.differ else 0


if __name__ == "__main__":
    sys.exit(main())

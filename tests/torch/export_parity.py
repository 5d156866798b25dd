"""Exports language models and adapters, and compares with plain torch what the files say.

Usage: export_parity.py GRAFT [CASE ...]     (GRAFT: the command line tool; run with a Python that has torch)

Folders must come back bit for bit. A GGUF file that was made of a folder is converted again, and its logits are
compared with torch's of the folder: rows of queries and keys, norms and transposed matrices are then where they belong.
Exit status: 0 all agree, 1 some do not, 77 torch is not installed.
"""

import json
import os
import sys
import tempfile

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import decoders
import more_decoders
import parity
from decoder_parity import CASES, HALVES, LLAMA, MORE, like, run_logits, write_folder
from decoder_parity import NO_GGUF as NO_MORE_GGUF
from gguf_files import gguf_name, plain, save_gguf
from parity import FORWARD_TOLERANCE, Report, error, graft

FAMILIES = {**CASES, "gemma3_six": like(CASES["gemma3"], num_hidden_layers=6, sliding_window_pattern=6,
                                    rope_local_base_freq=10000.0),
            "phi3_whole": like(CASES["phi3"], sliding_window=None),
            "mistral_whole": like(CASES["mistral"], sliding_window=64), "phi3_wide": like(CASES["phi3"], head_dim=16),
            "qwen3_biased": like(CASES["qwen3"], attention_bias=True)}
# What llama.cpp reads nothing of. In files of Gemma 3: which layers see all, another scale of attention; of SmolLM 3:
# other layers without positions than each fourth; windows of the others; YaRN's range in fractions; Phi-3 with heads of
# their own size; biases of Qwen3.
# As folders of the base class have them: "layers.0" for "model.layers.0".
BARE = ("qwen3_tied", "gpt2")
NO_GGUF = ("gemma3_tied", "gemma3", "smollm3_listed", "smollm3_sliding", "smollm3_sliding_unlisted", "mistral", "phi3",
           "phi3_wide", "qwen3_sliding", "qwen3_biased", "llama_yarn_fractions")


# Rows that move between the formats, matrices of several parts, names of their own.
MORE_ADAPTERS = ("gpt_neox", "phi", "glm4", "minicpm", "nemotron", "opt", "gptj")


def raw_tensors(folder):
    """name -> (dtype, shape, bytes) of all shards."""
    out = {}
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".safetensors"):
            continue
        with open(f"{folder}/{file}", "rb") as source:
            data = source.read()
        start = 8 + int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8:start]).items():
            if name != "__metadata__":
                begin, end = entry["data_offsets"]
                out[name] = entry["dtype"], entry["shape"], data[start + begin:start + end]
    return out


def check_family(report, case, config):
    weights = decoders.random_weights(config, seed=1)
    flags = []
    if case in HALVES:
        weights = {name: tensor.to(HALVES[case]) for name, tensor in weights.items()}
        flags = ["--dtype", "bf16" if HALVES[case] == torch.bfloat16 else "f16"]
    tokens = torch.randint(0, config["vocab_size"], (2, 11))
    with tempfile.TemporaryDirectory() as folder:
        stored = {name.split(".", 1)[1]: t for name, t in weights.items()} if case in BARE else weights
        write_folder(f"{folder}/model", config, stored)
        graft("convert", f"{folder}/model", "-o", f"{folder}/model.graft")
        graft("export", f"{folder}/model.graft", "-o", f"{folder}/back", *flags)
        original = raw_tensors(f"{folder}/model")
        report.check(case, "folder differs", float(raw_tensors(f"{folder}/back") != original), 0)
        expected = decoders.forward(config, {n: t.float() for n, t in weights.items()}, tokens).numpy()
        try:
            graft("export", f"{folder}/model.graft", "-o", f"{folder}/model.gguf")
        except RuntimeError as refused:
            report.check(case, "GGUF refused: " + str(refused).strip().splitlines()[-1], float(case not in NO_GGUF), 0)
            return
        graft("convert", f"{folder}/model.gguf", "-o", f"{folder}/gguf.graft")
        report.check(case, "logits by GGUF", error(run_logits(f"{folder}/gguf.graft", tokens, folder), expected),
                     FORWARD_TOLERANCE)
        graft("export", f"{folder}/gguf.graft", "-o", f"{folder}/again", *flags)
        again = raw_tensors(f"{folder}/again")
        if case in BARE:  # a GGUF file does not say that
            again = {name.split(".", 1)[1]: tensor for name, tensor in again.items()}
        differing = {n for n in {**again, **original} if again.get(n) != original.get(n)}
        if case.startswith("gemma"):  # norms lose a bit where 1 is added and taken away again
            differing = {n for n in differing if "norm" not in n}
        report.check(case, f"tensors that differ after both {sorted(differing)[:1]}", len(differing), 0)


def random_adapter(config, weights, generator, dora=False):
    """layer -> (A, B, alpha, DoRA's magnitude or None): ranks and alphas differ by kind of layer."""
    out = {}
    for name in weights:
        kind = name.split(".")[-2]
        if not kind.endswith("_proj"):
            continue
        rows, columns = weights[name].shape
        rank = 3 if kind == "down_proj" else 4
        alpha = 5.0 if kind == "q_proj" else 8.0
        a, b = (torch.randn(shape, generator=generator) * 0.3 for shape in ((rank, columns), (rows, rank)))
        lengths = weights[name].norm(dim=1) * (1 + 0.2 * torch.randn(rows, generator=generator)) if dora else None
        out[name[:-len(".weight")]] = a, b, alpha, lengths
    return out


def adapted(weights, adapter, alpha=None):
    out = dict(weights)
    for layer, (a, b, own, lengths) in adapter.items():
        weight = weights[layer + ".weight"] + (alpha or own) / len(a) * b @ a
        out[layer + ".weight"] = (weight if lengths is None
                                  else lengths[:, None] * weight / weight.norm(dim=1, keepdim=True))
    return out


def write_peft(folder, adapter):
    """By hand, as PEFT's save_pretrained writes it."""
    os.makedirs(folder)
    dora = any(lengths is not None for *_, lengths in adapter.values())
    config = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", "target_modules": ["all-linear"],
              "rank_pattern": {"down_proj": 3}, "alpha_pattern": {"q_proj": 5.0}, "use_dora": dora}
    with open(f"{folder}/adapter_config.json", "w") as out:
        json.dump(config, out)
    tensors = {}
    for layer, (a, b, _, lengths) in adapter.items():
        tensors[f"base_model.model.{layer}.lora_A.weight"] = a
        tensors[f"base_model.model.{layer}.lora_B.weight"] = b
        if dora:
            tensors[f"base_model.model.{layer}.lora_magnitude_vector"] = lengths
    decoders.save_safetensors(f"{folder}/adapter_model.safetensors", tensors)


def paired(matrix, heads):
    """Rows as GGUF files of Llama have them."""
    return matrix.reshape(heads, 2, -1, matrix.shape[-1]).swapaxes(1, 2).reshape(matrix.shape)


def write_gguf_adapter(path, config, adapter, alpha):
    tensors = {}
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for layer, (a, b, *_) in adapter.items():
        name = gguf_name(config, layer + ".weight")
        kind = layer.split(".")[-1]
        tensors[name + ".lora_a"] = plain(a)
        tensors[name + ".lora_b"] = plain(paired(b, heads[kind]).contiguous() if kind in heads else b)
    save_gguf(path, {"general.architecture": "llama", "general.type": "adapter", "adapter.type": "lora",
                     "adapter.lora.alpha": alpha}, tensors)


def check_adapters(report):
    config = like(LLAMA, vocab_size=41)
    weights = decoders.random_weights(config, seed=3)
    adapter = random_adapter(config, weights, torch.Generator().manual_seed(5))
    dora = random_adapter(config, weights, torch.Generator().manual_seed(6), dora=True)
    tokens = torch.randint(0, config["vocab_size"], (2, 9))
    with tempfile.TemporaryDirectory() as folder:
        write_folder(f"{folder}/model", config, weights)
        base, gguf = f"{folder}/model.graft", f"{folder}/gguf.graft"
        graft("convert", f"{folder}/model", "-o", base)
        graft("export", base, "-o", f"{folder}/model.gguf")
        graft("convert", f"{folder}/model.gguf", "-o", gguf)
        write_peft(f"{folder}/peft", adapter)
        write_peft(f"{folder}/dora", dora)
        write_gguf_adapter(f"{folder}/adapter.gguf", config, adapter, 6.0)
        for source, made, alpha in (("peft", adapter, None), ("dora", dora, None), ("adapter.gguf", adapter, 6.0)):
            expected = decoders.forward(config, adapted(weights, made, alpha), tokens).numpy()
            for kind, model in (("folder", base), ("GGUF", gguf)):
                np.save(f"{folder}/tokens.npy", tokens.numpy().astype(np.int32))
                graft("run", model, "--adapter", f"{folder}/{source}", "--input", f"tokens={folder}/tokens.npy", "--out",
                      f"{folder}/out")
                report.check("adapters", f"{source} on a model from a {kind}",
                             error(np.load(f"{folder}/out/logits.npy"), expected), FORWARD_TOLERANCE)
                graft("merge", model, "--adapter", f"{folder}/{source}", "-o", f"{folder}/merged.graft")
                report.check("adapters", f"{source} merged into a model from a {kind}",
                             error(run_logits(f"{folder}/merged.graft", tokens, folder), expected), FORWARD_TOLERANCE)


def layer_matrices(config, weights):
    names = more_decoders.FAMILIES[config["model_type"]]["names"]
    return [name[:-len(".weight")] for name, tensor in weights.items()
            if tensor.dim() == 2 and name.startswith(names["module"] + names["layer"])]


def check_more_adapters(report, case):
    """Adapters under PEFT's names on every matrix of a layer: on models from a folder and from a GGUF file, themselves as a
    folder and as a GGUF file. Those that are trained without named targets are on the same matrices."""
    config = MORE[case]
    weights = decoders.random_weights(config, seed=3)
    numbers, adapter = torch.Generator().manual_seed(5), {}
    for layer in layer_matrices(config, weights):
        rows, columns = weights[layer + ".weight"].shape
        a, b = (torch.randn(shape, generator=numbers) * 0.3 for shape in ((4, columns), (rows, 4)))
        adapter[layer] = a, b, 8.0, None
    tokens = torch.randint(0, config["vocab_size"], (2, 9))
    expected = decoders.forward(config, adapted(weights, adapter), tokens).numpy()
    with tempfile.TemporaryDirectory() as folder:
        write_folder(f"{folder}/model", config, weights)
        base, gguf = f"{folder}/model.graft", f"{folder}/gguf.graft"
        graft("convert", f"{folder}/model", "-o", base)
        graft("export", base, "-o", f"{folder}/back")
        report.check(case, "folder differs", float(raw_tensors(f"{folder}/back") != raw_tensors(f"{folder}/model")), 0)
        write_peft(f"{folder}/peft", adapter)
        with open(f"{folder}/peft/adapter_config.json", "w") as out:
            json.dump({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "bias": "none", "target_modules": "all-linear"}, out)
        graft("convert", f"{folder}/peft", "--base", base, "-o", f"{folder}/adapter.graft")
        models, sources = [base], [f"{folder}/peft"]
        if case not in NO_MORE_GGUF:
            graft("export", base, "-o", f"{folder}/model.gguf")
            graft("convert", f"{folder}/model.gguf", "-o", gguf)
            graft("export", f"{folder}/adapter.graft", "-o", f"{folder}/adapter.gguf")
            models, sources = [base, gguf], sources + [f"{folder}/adapter.gguf"]
        np.save(f"{folder}/tokens.npy", tokens.numpy().astype(np.int32))
        for model in models:
            for source in sources:
                graft("run", model, "--adapter", source, "--input", f"tokens={folder}/tokens.npy", "--out", f"{folder}/out")
                report.check(case, f"{os.path.basename(source)} on {os.path.basename(model)}",
                             error(np.load(f"{folder}/out/logits.npy"), expected), FORWARD_TOLERANCE)
        for name in "xy":
            np.save(f"{folder}/{name}.npy", tokens.numpy().astype(np.int32))
        graft("train", base, "--data", f"npy:{folder}/x.npy,{folder}/y.npy?integers=yes", "--seq", 9, "--batch", 2, "--steps", 1,
              "--lora", "r=2", "--quiet", "-o", f"{folder}/trained.graft")
        graft("export", f"{folder}/trained.graft", "-o", f"{folder}/trained")
        trained = {name.removeprefix("base_model.model.").split(".lora_")[0]
                   for name in decoders.load_safetensors(f"{folder}/trained/adapter_model.safetensors")}
        report.check(case, f"{len(trained)} matrices have adapters", float(trained != set(adapter)), 0)


def main():
    parity.GRAFT = sys.argv[1]
    wanted = sys.argv[2:]
    report = Report()
    for case, config in FAMILIES.items():
        if not wanted or case in wanted:
            check_family(report, case, config)
    if not wanted or "adapters" in wanted:
        check_adapters(report)
    for case in MORE_ADAPTERS:
        if not wanted or case in wanted:
            check_more_adapters(report, case)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())

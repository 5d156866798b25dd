"""Trains low-rank adapters with graft and with plain torch from the same start, and compares the losses of 30 steps.

Usage: lora_parity.py GRAFT     (GRAFT: the command line tool; run with a Python that has torch)
Exit status: 0 all agree, 1 some do not, 77 torch is not installed.
"""

import json
import os
import shutil
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import decoders
import parity
from decoder_parity import CASES, LLAMA, like, write_folder
from gguf_files import Blocks, gguf_metadata, gguf_name, gguf_tensors, quantized, save_gguf
from parity import CURVE_TOLERANCE, Report, graft

STEPS, BATCH, LENGTH, RANK, ALPHA, RATE = 30, 4, 12, 4, 8, 1e-2
QUANTIZED_TOLERANCE = 5e-3
LAYERS = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
          "mlp.up_proj", "mlp.down_proj"]


def adapter_matrices(path, config, weights):
    """The A and B of an adapter file, by the name of the weight. All are small: side by side in the first segment, each
    at a multiple of 256 bytes, in the order in which the model uses them."""
    with open(path, "rb") as file:
        data = file.read()
    root = int.from_bytes(data[16:24], "little")
    at = -(-root // 65536) * 65536
    out = {}
    for i in range(config["num_hidden_layers"]):
        for layer in LAYERS:
            name = f"model.layers.{i}.{layer}.weight"
            rows, columns = weights[name].shape
            for shape in ((RANK, columns), (rows, RANK)):
                count = shape[0] * shape[1]
                matrix = np.frombuffer(data[at:at + 4 * count], np.float32).copy().reshape(shape)
                out.setdefault(name, []).append(torch.from_numpy(matrix).requires_grad_())
                at += -(-4 * count // 256) * 256
    return out


def batches(config):
    torch.manual_seed(7)
    tokens = torch.randint(0, config["vocab_size"], (2 * BATCH, LENGTH))
    labels = torch.roll(tokens, -1, 1)
    labels[:, -1] = -100
    for row in range(len(labels)):  # as after a prompt
        labels[row, :row % 5] = -100
    return tokens, labels


def peft_matrices(path, folder):
    """What an adapter file holds, by the name of the weight: A, B and a magnitude, as it is exported."""
    graft("export", path, "-o", f"{folder}/peft")
    out = {}
    for name, tensor in decoders.load_safetensors(f"{folder}/peft/adapter_model.safetensors").items():
        layer, what = name.removeprefix("base_model.model.").split(".lora_")
        position = ["A.weight", "B.weight", "magnitude_vector"].index(what)
        out.setdefault(layer + ".weight", [None] * 3)[position] = tensor.clone().requires_grad_()
    return out


def weight_with(weight, a, b, magnitude=None):
    weight = weight + ALPHA / RANK * b @ a
    return weight if magnitude is None else magnitude[:, None] * weight / weight.norm(dim=1, keepdim=True)


def torch_curve(config, weights, adapters, tokens, labels):
    optimizer = torch.optim.AdamW([m for pair in adapters.values() for m in pair], lr=RATE, weight_decay=0)
    losses = []
    for step in range(STEPS):
        first = step * BATCH % len(tokens)
        x, y = tokens[first:first + BATCH], labels[first:first + BATCH]
        adapted = {name: weight_with(w, *adapters[name]) if name in adapters else w for name, w in weights.items()}
        loss = F.cross_entropy(decoders.forward(config, adapted, x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def graft_curve(folder, path, steps, rate, output, more="", *flags):
    graft("train", path, "--data", f"npy:{folder}/x.npy,{folder}/y.npy?integers=yes", "--seq", str(LENGTH), "--batch", str(BATCH),
          "--lora", f"r={RANK},alpha={ALPHA}{more}", "--lr", str(rate), "--weight-decay", "0", "--steps", str(steps),
          "--no-shuffle", "--seed", "11", "--quiet", "--metrics", f"{folder}/metrics.jsonl", "-o", output, *flags)
    with open(f"{folder}/metrics.jsonl") as file:
        return [json.loads(line)["loss"] for line in file]


def check_curve(report, case, config, weights, path, folder, tolerance):
    tokens, labels = batches(config)
    np.save(f"{folder}/x.npy", tokens.numpy().astype(np.int32))
    np.save(f"{folder}/y.npy", labels.numpy().astype(np.int32))
    graft_curve(folder, path, 1, 0, f"{folder}/start.graft")
    adapters = adapter_matrices(f"{folder}/start.graft", config, weights)
    firsts = [pair[0] for pair in adapters.values()]
    assert all(float(pair[1].detach().abs().max()) == 0 for pair in adapters.values()), "B starts as zeros"
    assert not torch.equal(firsts[0], firsts[3]), "adapters of equal shape start different"
    expected = torch_curve(config, weights, adapters, tokens, labels)
    actual = graft_curve(folder, path, STEPS, RATE, f"{folder}/end.graft")
    assert len(actual) == STEPS
    assert expected[-1] < expected[0] - 0.05, "the adapters learn"
    report.check(case, f"losses of {STEPS} steps, {expected[0]:.3f} to {expected[-1]:.3f}",
                 max(abs(a - b) for a, b in zip(actual, expected)), tolerance)


def check_dora(report, case, config, weights, path, folder, tolerance):
    """Lengths of rows trained too; and rsLoRA, whose scale is that of another alpha."""
    tokens, labels = batches(config)
    graft_curve(folder, path, 1, 0, f"{folder}/start.graft", ",dora=yes")
    adapters = peft_matrices(f"{folder}/start.graft", folder)
    for name, (_, b, magnitude) in adapters.items():
        assert float(b.detach().abs().max()) == 0, "B starts as zeros"
        assert torch.allclose(magnitude, weights[name].norm(dim=1), rtol=1e-5), "a magnitude starts as the row's length"
    start = {name: [part.detach().clone() for part in parts] for name, parts in adapters.items()}
    expected = torch_curve(config, weights, adapters, tokens, labels)
    actual = graft_curve(folder, path, STEPS, RATE, f"{folder}/end.graft", ",dora=yes")
    assert len(actual) == STEPS
    report.check(case, f"DoRA, losses of {STEPS} steps, {expected[0]:.3f} to {expected[-1]:.3f}",
                 max(abs(a - b) for a, b in zip(actual, expected)), tolerance)
    ended = peft_matrices(f"{folder}/end.graft", folder)
    assert all(float((ended[name][2].detach() - start[name][2]).abs().max()) > 1e-3 for name in ended), "lengths learn"
    worst = max(float((x.detach() - y.detach()).abs().max()) for name in ended for x, y in zip(ended[name], adapters[name]))
    report.check(case, "DoRA, matrices and lengths after", worst, 2 * tolerance)
    try:
        graft("export", f"{folder}/end.graft", "-o", f"{folder}/end.gguf")
        raise AssertionError("a GGUF file has no place for lengths")
    except RuntimeError as refused:
        assert "is DoRA, which GGUF files do not hold" in str(refused), refused
    graft_curve(folder, path, 3, RATE, f"{folder}/a.graft", ",rslora=yes")
    graft("export", f"{folder}/a.graft", "-o", f"{folder}/rslora")
    with open(f"{folder}/rslora/adapter_config.json") as file:
        assert json.load(file)["lora_alpha"] == ALPHA * RANK ** 0.5, "the scale is alpha / sqrt(r)"
    graft_curve(folder, path, 3, RATE, f"{folder}/b.graft", ",targets=all-linear")
    graft_curve(folder, path, 3, RATE, f"{folder}/c.graft")
    with open(f"{folder}/b.graft", "rb") as one, open(f"{folder}/c.graft", "rb") as other:
        assert one.read() == other.read(), "all linear layers are the default"


def principal(weight):
    """A and B of the weight's largest singular values, as Meng et al. 2024 begin with them."""
    u, s, v = torch.linalg.svd(weight.double(), full_matrices=False)
    root = (s[:RANK] / (ALPHA / RANK)).sqrt()
    return [(root[:, None] * v[:RANK]).float(), (u[:, :RANK] * root).float()]


def check_pissa(report, case, config, weights, path, folder, tolerance):
    """Adapters that begin as the weight's strongest directions, against torch's own singular vectors: their signs may
    differ, which changes no loss. A file holds [A; A0] and [B, -B0]."""
    tokens, labels = batches(config)
    saved = lambda name: {key: [part.detach() for part in parts if part is not None]
                          for key, parts in peft_matrices(f"{folder}/{name}.graft", folder).items()}
    graft_curve(folder, path, 1, 0, f"{folder}/start.graft", ",init=pissa")
    began = saved("start")
    adapters = {name: [part.requires_grad_() for part in principal(weights[name])] for name in began}
    rest = {name: weights[name] - ALPHA / RANK * (b @ a).detach() for name, (a, b) in adapters.items()}
    rest = {**weights, **rest}
    for name, (a, b) in began.items():
        assert torch.equal(a[:RANK], a[RANK:]) and torch.equal(b[:, :RANK], -b[:, RANK:]), "nothing was learned yet"
    worst = max(parity.error((b[:, :RANK] @ a[:RANK]).numpy(), (adapters[name][1] @ adapters[name][0]).detach().numpy())
                for name, (a, b) in began.items())
    report.check(case, "PiSSA, what adapters begin with", worst, 1e-4)

    first = F.cross_entropy(decoders.forward(config, weights, tokens[:BATCH]).flatten(0, 1), labels[:BATCH].flatten())
    again = F.cross_entropy(decoders.forward(config, {name: weight_with(w, *adapters[name]) if name in adapters else w
                                                      for name, w in rest.items()}, tokens[:BATCH]).flatten(0, 1),
                            labels[:BATCH].flatten())
    again.backward()
    one = graft_curve(folder, path, 1, 1, f"{folder}/one.graft", ",init=pissa", "--optimizer", "sgd")
    report.check(case, "PiSSA, loss before the first step", max(abs(one[0] - float(first)), abs(one[0] - float(again))), 1e-5)
    worst = 0
    for name, (a, b) in saved("one").items():
        (first_a, first_b) = adapters[name]
        for got, start, torchs, gradient in ((a[:RANK], a[RANK:], first_a.detach(), first_a.grad),
                                             (b[:, :RANK].T, -b[:, RANK:].T, first_b.detach().T, first_b.grad.T)):
            signs = (start * torchs).sum(1, keepdim=True).sign()
            worst = max(worst, parity.error(((start - got) * signs).numpy(), gradient.numpy()))
    report.check(case, "PiSSA, gradients", worst, parity.GRADIENT_TOLERANCE)

    expected = torch_curve(config, rest, adapters, tokens, labels)
    actual = graft_curve(folder, path, STEPS, RATE, f"{folder}/end.graft", ",init=pissa")
    report.check(case, f"PiSSA, losses of {STEPS} steps, {expected[0]:.3f} to {expected[-1]:.3f}",
                 max(abs(a - b) for a, b in zip(actual, expected, strict=True)), tolerance)
    graft("merge", path, "--adapter", f"{folder}/end.graft", "-o", f"{folder}/merged.graft")
    graft("export", f"{folder}/merged.graft", "-o", f"{folder}/merged.safetensors")
    merged, ended = decoders.load_safetensors(f"{folder}/merged.safetensors"), saved("end")
    worst = 0
    for name, (a, b) in ended.items():
        there = merged.get(name, merged.get(gguf_name(config, name)))
        exact = weights[name].double() + ALPHA / RANK * (b.double() @ a.double())
        worst = max(worst, parity.error(there.numpy(), exact.float().numpy()))
        assert parity.error(there.numpy(), weight_with(rest[name], *adapters[name]).detach().numpy()) < 10 * tolerance
    report.check(case, "PiSSA, merged weights", worst, 1e-6)


def table_matrices(path, folder):
    """A and B by layer, as PEFT has them: A of an embedding is [rank, rows]."""
    shutil.rmtree(f"{folder}/peft", ignore_errors=True)
    graft("export", path, "-o", f"{folder}/peft")
    out = {}
    for name, tensor in decoders.load_safetensors(f"{folder}/peft/adapter_model.safetensors").items():
        layer, what = name.removeprefix("base_model.model.").split(".lora_")
        assert what in (("embedding_A", "embedding_B") if layer == "model.embed_tokens" else ("A.weight", "B.weight")), name
        out.setdefault(layer, [None] * 2)["B" in what] = tensor.clone().requires_grad_()
    return out


def with_tables(weights, adapters):
    """Embedding and head apart, each with its adapter in it."""
    out = {"lm_head.weight": weights["model.embed_tokens.weight"], **weights}
    for layer, (a, b) in adapters.items():
        change = (b @ a).T if layer == "model.embed_tokens" else b @ a
        out[layer + ".weight"] = out[layer + ".weight"] + ALPHA / RANK * change
    return out


def check_tables(report, case, config, weights, path, folder, tolerance):
    """Adapters of the embedding and of the head, which may be one matrix, beside one of queries."""
    tokens, labels = batches(config)
    apart = {**config, "tie_word_embeddings": False}
    targets = ",targets=embed_tokens|lm_head|q_proj"
    graft_curve(folder, path, 1, 0, f"{folder}/start.graft", targets)
    adapters = table_matrices(f"{folder}/start.graft", folder)
    assert len(adapters) == 2 + config["num_hidden_layers"], adapters.keys()
    a, b = (part.detach() for part in adapters["model.embed_tokens"])
    assert float(a.abs().max()) == 0 and 0.5 < float(b.std()) < 1.5, "as PEFT begins: A of zeros, B normal"
    assert float(adapters["lm_head"][1].detach().abs().max()) == 0, "B of a linear layer starts as zeros"
    optimizer = torch.optim.AdamW([m for pair in adapters.values() for m in pair], lr=RATE, weight_decay=0)
    expected = []
    for step in range(STEPS):
        first = step * BATCH % len(tokens)
        x, y = tokens[first:first + BATCH], labels[first:first + BATCH]
        loss = F.cross_entropy(decoders.forward(apart, with_tables(weights, adapters), x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(float(loss))
    actual = graft_curve(folder, path, STEPS, RATE, f"{folder}/end.graft", targets)
    report.check(case, f"embedding and head, losses of {STEPS} steps, {expected[0]:.3f} to {expected[-1]:.3f}",
                 max(abs(a - b) for a, b in zip(actual, expected, strict=True)), tolerance)
    ended = table_matrices(f"{folder}/end.graft", folder)
    worst = max(float((x - y).detach().abs().max()) for layer in ended for x, y in zip(ended[layer], adapters[layer]))
    report.check(case, "embedding and head, matrices after", worst, 2 * tolerance)

    # As PEFT writes it: with the base's own tables beside the matrices.
    file = f"{folder}/peft/adapter_model.safetensors"
    saved = {**decoders.load_safetensors(file), "base_model.model.model.embed_tokens.base_layer.weight": weights["model.embed_tokens.weight"]}
    decoders.save_safetensors(file, saved)
    np.save(f"{folder}/tokens.npy", tokens.numpy().astype(np.int32))
    graft("run", path, "--adapter", f"{folder}/peft", "--input", f"tokens={folder}/tokens.npy", "--out", f"{folder}/out")
    logits = decoders.forward(apart, with_tables(weights, ended), tokens).detach().numpy()
    report.check(case, "embedding and head, logits by the PEFT folder", parity.error(np.load(f"{folder}/out/logits.npy"), logits), 1e-4)
    if config["tie_word_embeddings"]:
        for command in (["merge", path, "--adapter", f"{folder}/end.graft", "-o", f"{folder}/merged.graft"],
                        ["export", f"{folder}/end.graft", "-o", f"{folder}/end.gguf"]):
            try:
                graft(*command)
                raise AssertionError("one matrix cannot be changed for one of its two uses")
            except RuntimeError as refused:
                assert "would change both" in str(refused) or "would put it on both" in str(refused), refused
        return
    graft("export", f"{folder}/end.graft", "-o", f"{folder}/end.gguf")
    graft("merge", path, "--adapter", f"{folder}/end.gguf", "-o", f"{folder}/merged.graft")
    graft("export", f"{folder}/merged.graft", "-o", f"{folder}/merged.safetensors")
    merged = decoders.load_safetensors(f"{folder}/merged.safetensors")
    whole = with_tables(weights, ended)
    worst = max(parity.error(merged[layer + ".weight"].numpy(), whole[layer + ".weight"].detach().numpy()) for layer in ended)
    report.check(case, "embedding and head, merged weights by way of GGUF", worst, 1e-6)


def check_family(report, case, config):
    weights = decoders.random_weights(config, seed=1)
    with tempfile.TemporaryDirectory() as folder:
        write_folder(f"{folder}/model", config, weights)
        graft("convert", f"{folder}/model", "-o", f"{folder}/a.graft")
        ops = graft("plan", f"{folder}/a.graft", "--lora", "r=4", "--bind", "batch=2,seq=8", "--ops", "--device", "0").split()
        report.check(case, "logits are whole", float("linear_cross_entropy" not in ops or "cross_entropy" in ops), 0)
        check_curve(report, case, config, weights, f"{folder}/a.graft", folder, CURVE_TOLERANCE)
        if case in ("llama", "gemma2"):
            check_tables(report, case, config, weights, f"{folder}/a.graft", folder, CURVE_TOLERANCE)
        if case == "llama":
            os.rename(f"{folder}/a.graft", f"{folder}/base.graft")
            check_dora(report, case, config, weights, f"{folder}/base.graft", folder, CURVE_TOLERANCE)
            check_pissa(report, case, config, weights, f"{folder}/base.graft", folder, CURVE_TOLERANCE)


def check_blocks(report, name):
    """A base of quantized blocks against the same base in f32."""
    config = like(LLAMA, model_type="qwen2", hidden_size=32, intermediate_size=64, num_attention_heads=4)
    weights = decoders.random_weights(config, seed=4)
    tensors = gguf_tensors(config, weights)
    blocks = Blocks(5)
    for key, tensor in weights.items():
        if tensor.dim() == 2:
            tensors[gguf_name(config, key)], weights[key] = quantized(blocks, name, *tensor.shape)
    with tempfile.TemporaryDirectory() as folder:
        save_gguf(f"{folder}/a.gguf", gguf_metadata(config), tensors)
        graft("convert", f"{folder}/a.gguf", "-o", f"{folder}/a.graft")
        check_curve(report, name, config, weights, f"{folder}/a.graft", folder, QUANTIZED_TOLERANCE)
        if name == "q8_0":
            os.rename(f"{folder}/a.graft", f"{folder}/base.graft")
            check_dora(report, name, config, weights, f"{folder}/base.graft", folder, QUANTIZED_TOLERANCE)
            check_pissa(report, name, config, weights, f"{folder}/base.graft", folder, QUANTIZED_TOLERANCE)


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    report = Report()
    for case in ("llama", "llama_tied", "qwen3_tied", "gemma2", "gemma3"):
        check_family(report, case, CASES[case])
    for name in ("q8_0", "q4_0"):
        check_blocks(report, name)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())

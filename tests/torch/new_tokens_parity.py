"""Adds tokens to vocabularies with graft and with plain torch (tables with more rows, gradients of the new ones alone),
and compares 30 steps, what was learned, and what merged models and exports say.

Usage: new_tokens_parity.py GRAFT     (GRAFT: the command line tool; run with a Python that has torch)
Exit status: 0 all agree, 1 some do not, 77 torch is not installed.
"""

import json
import os
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
from parity import CURVE_TOLERANCE, Report, error, graft

STEPS, BATCH, LENGTH, RATE, RANK, ALPHA = 30, 4, 12, 1e-2, 4, 8
QUANTIZED_TOLERANCE = 5e-3
EMBEDDING, HEAD = "model.embed_tokens", "lm_head"
TOKENS = [f"<|{i}|>" for i in range(9)]


def write_model(folder, config, weights, known):
    """`known` tokens; the tables may have more rows."""
    write_folder(folder, config, weights)
    vocabulary = {"<unk>" if i == 0 else f"w{i}": i for i in range(known)}
    with open(f"{folder}/tokenizer.json", "w") as out:
        json.dump({"added_tokens": [{"id": 0, "content": "<unk>", "special": True}], "normalizer": None,
                   "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
                   "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": vocabulary}}, out)


class Tables:
    """Embedding and head with new rows, which alone have gradients."""

    def __init__(self, config, weights, known, count):
        self.weights, self.known, self.count = weights, known, count
        self.tied = config["tie_word_embeddings"]
        self.rows = {}
        for layer in [EMBEDDING] if self.tied else [EMBEDDING, HEAD]:
            mean = weights[layer + ".weight"][:known].mean(0)
            self.rows[layer] = mean.repeat(count, 1).clone().requires_grad_()

    def whole(self):
        out = dict(self.weights)
        for layer, rows in self.rows.items():
            table = self.weights[layer + ".weight"]
            out[layer + ".weight"] = torch.cat([table[:self.known], rows, table[self.known + self.count:]])
        return out


def learned(path, folder):
    """New rows by layer, and A and B by the weight's name, as an exported PEFT folder has them."""
    graft("export", path, "-o", f"{folder}/peft")
    rows, matrices = {}, {}
    for name, tensor in decoders.load_safetensors(f"{folder}/peft/adapter_model.safetensors").items():
        name = name.removeprefix("base_model.model.")
        if name.endswith(".trainable_tokens_delta"):
            rows[name.removesuffix(".trainable_tokens_delta").removesuffix(".token_adapter")] = tensor
        else:
            layer, what = name.split(".lora_")
            matrices.setdefault(layer + ".weight", [None] * 2)["B" in what] = tensor.clone().requires_grad_()
    with open(f"{folder}/peft/adapter_config.json") as file:
        config = json.load(file)
    with open(f"{folder}/peft/added_tokens.json") as file:
        return rows, matrices, config, json.load(file)


def logits_of(path, tokens, folder, *flags):
    np.save(f"{folder}/tokens.npy", tokens.numpy().astype(np.int32))
    graft("run", path, "--input", f"tokens={folder}/tokens.npy", "--out", f"{folder}/out", *flags)
    return np.load(f"{folder}/out/logits.npy")


def check(report, case, config, known, count, tolerance, quantize=None, lora=False, logits_tolerance=1e-4):
    weights = decoders.random_weights(config, seed=1)
    rows_in_all = max(config["vocab_size"], known + count)
    names = TOKENS[:count]
    with tempfile.TemporaryDirectory() as folder:
        write_model(f"{folder}/model", config, weights, known)
        path = f"{folder}/a.graft"
        graft("convert", f"{folder}/model", "-o", path, *(["--quantize", quantize] if quantize else []))
        if quantize:  # what blocks stand for
            graft("export", path, "-o", f"{folder}/numbers.safetensors")
            weights = decoders.load_safetensors(f"{folder}/numbers.safetensors")
        torch.manual_seed(7)
        tokens = torch.randint(0, known + count, (2 * BATCH, LENGTH))
        tokens[:, ::5] = known + torch.arange(len(tokens))[:, None] % count  # new ones are not rare
        labels = torch.roll(tokens, -1, 1)
        labels[:, -1] = -100
        for row in range(len(labels)):  # as after a prompt
            labels[row, :row % 5] = -100
        np.save(f"{folder}/x.npy", tokens.numpy().astype(np.int32))
        np.save(f"{folder}/y.npy", labels.numpy().astype(np.int32))

        def curve(steps, rate, output):
            graft("train", path, "--data", f"npy:{folder}/x.npy,{folder}/y.npy?integers=yes", "--seq", str(LENGTH), "--batch",
                  str(BATCH), "--add-tokens", ",".join(names), *(["--lora", f"r={RANK},alpha={ALPHA}"] if lora else []), "--lr",
                  str(rate), "--weight-decay", "0", "--steps", str(steps), "--no-shuffle", "--seed", "11", "--quiet",
                  "--metrics", f"{folder}/metrics.jsonl", "-o", output)
            with open(f"{folder}/metrics.jsonl") as file:
                return [json.loads(line)["loss"] for line in file]

        curve(1, 0, f"{folder}/start.graft")
        start, matrices, peft, added = learned(f"{folder}/start.graft", folder)
        tables = Tables(config, weights, known, count)
        assert start.keys() == tables.rows.keys() and (len(matrices) > 0) == lora, (start.keys(), matrices.keys())
        ids = list(range(known, known + count))
        assert added == dict(zip(names, ids)), added
        said = peft["trainable_token_indices" if lora else "token_indices"]
        assert said == (ids if tables.tied or not lora else {"embed_tokens": ids, "lm_head": ids}), said
        worst = max(error(start[layer].numpy(), rows.detach().numpy()) for layer, rows in tables.rows.items())
        report.check(case, "rows begin as the mean", worst, 1e-6)

        def with_matrices():
            return {name: w + ALPHA / RANK * matrices[name][1] @ matrices[name][0] if name in matrices else w
                    for name, w in tables.whole().items()}

        trained = [*tables.rows.values(), *(m for pair in matrices.values() for m in pair)]
        optimizer = torch.optim.AdamW(trained, lr=RATE, weight_decay=0)
        expected = []
        for step in range(STEPS):
            first = step * BATCH % len(tokens)
            out = decoders.forward(config, with_matrices(), tokens[first:first + BATCH])
            loss = F.cross_entropy(out.flatten(0, 1), labels[first:first + BATCH].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            expected.append(float(loss))
        actual = curve(STEPS, RATE, f"{folder}/end.graft")
        assert expected[-1] < expected[0] - 0.05, "the rows learn"
        report.check(case, f"losses of {STEPS} steps, {expected[0]:.3f} to {expected[-1]:.3f}",
                     max(abs(a - b) for a, b in zip(actual, expected, strict=True)), tolerance)
        ended, own, _, _ = learned(f"{folder}/end.graft", folder)
        worst = max(float((ended[layer] - rows.detach()).abs().max()) for layer, rows in tables.rows.items())
        report.check(case, "rows after", worst, 2 * tolerance)

        # The same numbers in torch and in graft: beside the base, merged, exported, and as the PEFT folder.
        for layer in tables.rows:
            tables.rows[layer] = ended[layer]
        matrices = {name: [m.detach() for m in pair] for name, pair in own.items()}
        logits = decoders.forward(config, with_matrices(), tokens).detach().numpy()
        assert logits.shape[-1] == rows_in_all
        report.check(case, "logits", error(logits_of(path, tokens, folder, "--adapter", f"{folder}/end.graft"), logits),
                     logits_tolerance)
        report.check(case, "logits by the PEFT folder",
                     error(logits_of(path, tokens, folder, "--adapter", f"{folder}/peft"), logits), logits_tolerance)
        graft("merge", path, "--adapter", f"{folder}/end.graft", "-o", f"{folder}/merged.graft")
        graft("export", f"{folder}/merged.graft", "-o", f"{folder}/merged.safetensors")
        merged = decoders.load_safetensors(f"{folder}/merged.safetensors")
        for layer, rows in ended.items():
            table, before = merged[layer + ".weight"], weights[layer + ".weight"]
            assert table.shape[0] == rows_in_all
            assert torch.equal(table[:known], before[:known]), "rows that were there stay as they are"
            assert torch.equal(table[known + count:], before[known + count:]), "and those behind"
            new = table[known:known + count]
            assert quantize or torch.equal(new, rows)
            if quantize:  # they become blocks as the others are: half a step off, or a whole one at the end of four bits' range
                step = rows.reshape(count, -1, 32).abs().amax(-1, keepdim=True) * {"q8_0": 0.5 / 127, "q4_0": 1 / 8}[quantize]
                off = (new - rows).reshape(count, -1, 32).abs()
                assert torch.all(off <= 1.01 * step), (float(off.max()), float(step.max()))  # the step is kept in 16 bits
            tables.rows[layer] = new
        logits = decoders.forward(config, with_matrices(), tokens).detach().numpy()
        report.check(case, "merged, logits", error(logits_of(f"{folder}/merged.graft", tokens, folder), logits), logits_tolerance)
        for target, back in ((f"{folder}/hf", "folder"), (f"{folder}/a.gguf", "gguf")):
            graft("export", f"{folder}/merged.graft", "-o", target)
            graft("convert", target, "-o", f"{folder}/back.graft")
            report.check(case, f"merged, logits by way of a {back}",
                         error(logits_of(f"{folder}/back.graft", tokens, folder), logits), logits_tolerance)
            text = f"w1{names[0]}w2 {names[-1]}"
            there = json.loads(graft("tokenize", f"{folder}/back.graft", text, "--json")) if back == "folder" else None
            assert there is None or there["ids"] == [1, known, 2, known + count - 1], there
        with open(f"{folder}/hf/config.json") as file:
            assert json.load(file)["vocab_size"] == rows_in_all


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    report = Report()
    check(report, "llama", LLAMA, 37, 3, CURVE_TOLERANCE)
    check(report, "llama with adapters", LLAMA, 37, 3, CURVE_TOLERANCE, lora=True)
    check(report, "llama_tied", CASES["llama_tied"], 37, 3, CURVE_TOLERANCE)
    check(report, "llama, fewer than rows are free", like(LLAMA, vocab_size=40), 33, 3, CURVE_TOLERANCE)
    check(report, "llama, more than rows are free", like(LLAMA, vocab_size=40), 33, 9, CURVE_TOLERANCE)
    check(report, "gemma2 with adapters", like(CASES["gemma2"], vocab_size=40), 37, 2, CURVE_TOLERANCE, lora=True)
    blocks = like(LLAMA, model_type="qwen2", hidden_size=32, intermediate_size=64, num_attention_heads=4, vocab_size=44)
    check(report, "blocks of q8_0 with adapters", blocks, 40, 3, QUANTIZED_TOLERANCE, "q8_0", lora=True)
    check(report, "blocks of q4_0", like(blocks, tie_word_embeddings=True), 44, 2, QUANTIZED_TOLERANCE, "q4_0")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Converts encoders (BERT and its kin) and compares graft with plain torch: hidden states, logits, gradients, embeddings,
and what is exported.

Usage: encoder_parity.py GRAFT [CASE ...]     (GRAFT: the command line tool; run with a Python that has torch)
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
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))

import decoders
import encoders
import files
import letter_text
import parity
from decoder_parity import like, write_folder
from gguf_files import GEMMA_NAMES
from parity import GRADIENT_TOLERANCE, Report, error, file_of, graft

FORWARD_TOLERANCE = 1e-5  # a few layers of f32 in another order

BERT = {"model_type": "bert", "hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2,
        "num_attention_heads": 4, "vocab_size": 37, "max_position_embeddings": 32, "type_vocab_size": 2,
        "layer_norm_eps": 1e-12, "hidden_act": "gelu", "pad_token_id": 0}
ROBERTA = like(BERT, model_type="roberta", type_vocab_size=1, layer_norm_eps=1e-5, pad_token_id=1)
DISTILBERT = {"model_type": "distilbert", "dim": 24, "hidden_dim": 40, "n_layers": 2, "n_heads": 4, "vocab_size": 37,
              "max_position_embeddings": 32, "activation": "gelu", "pad_token_id": 0}
CLASSES = {"id2label": {"0": "bad", "1": "good", "2": "so so"}, "label2id": {"bad": 0, "good": 1, "so so": 2}}

# A configuration, and flags of encoders.random_weights.
CASES = {
    "bert": (like(BERT, architectures=["BertModel"]), {"alone": True, "pooler": True}),
    "bert_tanh": (like(BERT, hidden_act="gelu_new", layer_norm_eps=1e-3), {"alone": True}),
    "bert_gamma": (like(BERT, architectures=["BertForMaskedLM"]), {}),
    "bert_classes": (like(BERT, architectures=["BertForSequenceClassification"], **CLASSES), {"pooler": True}),
    "bert_tokens": (like(BERT, architectures=["BertForTokenClassification"], **CLASSES), {}),
    "roberta": (like(ROBERTA, architectures=["RobertaModel"]), {"alone": True, "pooler": True}),
    "roberta_masked": (like(ROBERTA, architectures=["RobertaForMaskedLM"]), {}),
    "xlm_classes": (like(ROBERTA, model_type="xlm-roberta", architectures=["XLMRobertaForSequenceClassification"],
                         **CLASSES), {}),
    "camembert": (like(ROBERTA, model_type="camembert", architectures=["CamembertForMaskedLM"]), {}),
    "distilbert": (like(DISTILBERT, architectures=["DistilBertModel"]), {"alone": True}),
    "distilbert_masked": (like(DISTILBERT, architectures=["DistilBertForMaskedLM"]), {}),
    "distilbert_classes": (like(DISTILBERT, architectures=["DistilBertForSequenceClassification"], **CLASSES), {}),
    "electra": (like(BERT, model_type="electra", embedding_size=16, architectures=["ElectraModel"]), {"alone": True}),
    "electra_classes": (like(BERT, model_type="electra", embedding_size=24, architectures=["ElectraForSequenceClassification"], **CLASSES),
                        {}),
}
MODERN = {"model_type": "modernbert", "hidden_size": 24, "intermediate_size": 20, "num_hidden_layers": 5,
          "num_attention_heads": 3, "vocab_size": 37, "max_position_embeddings": 64, "norm_eps": 1e-5,
          "hidden_activation": "gelu", "local_attention": 5, "global_rope_theta": 5000.0, "local_rope_theta": 100.0,
          "pad_token_id": 0}
GEMMA = {"model_type": "gemma3_text", "use_bidirectional_attention": True, "hidden_size": 24, "intermediate_size": 40,
         "num_hidden_layers": 7, "num_attention_heads": 3, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 37,
         "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 5000.0, "rope_local_base_freq": 100.0,
         "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 8, "sliding_window": 5, "pad_token_id": 0}
NOMIC = {"model_type": "nomic_bert", "n_embd": 24, "n_head": 3, "n_layer": 2, "n_inner": 20, "n_positions": 64,
         "vocab_size": 37, "pad_vocab_size_multiple": 8, "layer_norm_epsilon": 1e-5, "rotary_emb_base": 100.0,
         "activation_function": "swiglu", "qkv_proj_bias": False, "mlp_fc1_bias": False, "mlp_fc2_bias": False,
         "type_vocab_size": 2, "pad_token_id": 0, "prenorm": False}
CASES.update({
    "nomic": (like(NOMIC, architectures=["NomicBertModel"]), {"alone": True}),
    "nomic_biased": (like(NOMIC, qkv_proj_bias=True, mlp_fc1_bias=True, mlp_fc2_bias=True, rotary_emb_fraction=0.5,
                          activation_function="geglu", type_vocab_size=1), {}),
    "modern": (like(MODERN, architectures=["ModernBertModel"]), {"alone": True}),
    "modern_masked": (like(MODERN, architectures=["ModernBertForMaskedLM"], norm_bias=True, attention_bias=True,
                           mlp_bias=True, decoder_bias=False, classifier_bias=True, hidden_activation="silu"), {}),
    "modern_classes": (like(MODERN, architectures=["ModernBertForSequenceClassification"], classifier_pooling="mean",
                            global_attn_every_n_layers=2, **CLASSES), {}),
    "modern_tokens": (like(MODERN, architectures=["ModernBertForTokenClassification"], classifier_activation="relu",
                           layer_types=["sliding_attention"] * 3 + ["full_attention"] * 2, **CLASSES), {}),
    "embedding_gemma": (like(GEMMA, architectures=["Gemma3TextModel"]), {"alone": True}),
    "embedding_gemma_biased": (like(GEMMA, num_hidden_layers=3, _sliding_window_pattern=2, query_pre_attn_scalar=5,
                                    attention_bias=True), {}),
})
LENGTHS = (11, 6, 1)
GGUF = ("bert", "bert_classes", "roberta", "distilbert_masked", "modern", "embedding_gemma", "nomic")  # others have what GGUF cannot say, or the same as these


def inputs_of(config, folder):
    """Texts of several lengths, padded, and flags that give them to graft."""
    width = max(LENGTHS)
    tokens = torch.randint(3, config["vocab_size"], (len(LENGTHS), width))
    mask = torch.zeros_like(tokens)
    for row, length in enumerate(LENGTHS):
        mask[row, :length] = 1
        tokens[row, length:] = config["pad_token_id"]
    given = {"tokens": tokens, "attention_mask": mask}
    if config.get("type_vocab_size", 1) > 1:
        given["token_type_ids"] = torch.randint(0, config["type_vocab_size"], tokens.shape)
    flags = []
    for name, values in given.items():
        np.save(f"{folder}/{name}.npy", values.numpy().astype(np.int32))
        flags += ["--input", f"{name}={folder}/{name}.npy"]
    return tokens, mask, given.get("token_type_ids"), flags


def old_names(weights):
    endings = {".LayerNorm.weight": ".LayerNorm.gamma", ".LayerNorm.bias": ".LayerNorm.beta"}
    out = {}
    for name, tensor in weights.items():
        for now, old in endings.items():
            if name.endswith(now):
                name = name[:-len(now)] + old
        out[name] = tensor
    return out


def check_gradients(report, case, path, folder, flags, value, of, weights, mask):
    """Of a random cotangent, where no padding counts."""
    cotangent = torch.randn_like(value)
    if value.dim() == 3:
        cotangent = cotangent * mask[..., None]
    np.save(f"{folder}/cotangent.npy", cotangent.numpy())
    gradients = torch.autograd.grad(value, list(weights.values()), cotangent, retain_graph=True, allow_unused=True)
    used = {name: g for name, g in zip(weights, gradients) if g is not None}
    graft("grad", path, *flags, "--of", of, "--cotangent", f"{folder}/cotangent.npy", "--wrt", ",".join(used), "--out",
          f"{folder}/grad")
    largest = max(float(g.norm()) for g in used.values())
    worst, worst_name = 0.0, ""
    for name, expected in used.items():
        actual = np.load(f"{folder}/grad/{file_of(name)}")
        if actual.shape != tuple(expected.shape):
            raise RuntimeError(f"{case}: the gradient of {name} has the shape {actual.shape}")
        # A gradient that is zero but for rounding (a key's bias) is measured against its peers.
        scale = max(float(expected.norm()), 1e-3 * largest)
        distance = float(np.linalg.norm(actual - expected.numpy())) / scale
        worst, worst_name = max((worst, worst_name), (distance, name))
    report.check(case, f"{len(used)} gradients of {of}, worst {worst_name[-24:]}", worst, GRADIENT_TOLERANCE)


def check_export(report, case, path, folder, config, stored):
    """The same names, shapes and bits come back."""
    graft("export", path, "-o", f"{folder}/back")
    back = decoders.load_safetensors(f"{folder}/back/model.safetensors")
    assert sorted(back) == sorted(stored), sorted(set(back) ^ set(stored))
    different = sum(not torch.equal(back[name], tensor) for name, tensor in stored.items())
    report.check(case, "tensors that an export changes", different, 0)
    with open(f"{folder}/back/config.json") as file:
        written = json.load(file)
    multiple = config.get("pad_vocab_size_multiple", 1)
    config = like(config, vocab_size=-(-config["vocab_size"] // multiple) * multiple)  # the table's rows
    assert {key: written.get(key) for key in config} == config, written


def read_gguf(path):
    keys, tensors = files.load_gguf(path)
    numbers = {name: np.frombuffer(raw, np.float32).reshape(dims[::-1]) for name, (_, dims, raw) in tensors.items()}
    return {key: value for key, (_, value) in keys.items()}, numbers


def encoder_names(config):
    """Of an encoder without a head in GGUF files: what stands for a module's name in a folder."""
    q, k, v, o, o_norm, up, down, down_norm = encoders.layer_names(config)
    layer = {q: "attn_q", k: "attn_k", v: "attn_v", o: "attn_output", o_norm: "attn_output_norm", up: "ffn_up",
             down: "ffn_down", down_norm: "layer_output_norm"}
    out = {"word_embeddings": "token_embd", "position_embeddings": "position_embd", "token_type_embeddings": "token_types",
           "LayerNorm": "token_embd_norm"}
    out = {f"embeddings.{name}": gguf for name, gguf in out.items()}
    for i in range(encoders.sizes(config)[2]):
        out.update({f"{encoders.layers_name(config)}{i}.{name}": f"blk.{i}.{gguf}" for name, gguf in layer.items()})
    return out


NOMIC_GGUF = {"embeddings.word_embeddings": "token_embd", "embeddings.token_type_embeddings": "token_types",
              "emb_ln": "token_embd_norm", "attn.Wqkv": "attn_qkv", "attn.out_proj": "attn_output", "norm1": "attn_output_norm",
              "norm2": "layer_output_norm", "mlp.fc11": "ffn_up", "mlp.fc12": "ffn_gate", "mlp.fc2": "ffn_down"}
MODERN_GGUF = {"embeddings.tok_embeddings": "token_embd", "embeddings.norm": "token_embd_norm", "final_norm": "output_norm",
               "attn_norm": "attn_norm", "attn.Wqkv": "attn_qkv", "attn.Wo": "attn_output", "mlp_norm": "ffn_norm",
               "mlp.Wi": "ffn_up", "mlp.Wo": "ffn_down", "embed_tokens": "token_embd", "norm": "output_norm",
               **{name: gguf for name, gguf in GEMMA_NAMES.items() if "." in name or name.endswith("layernorm")}}


def check_modern_tensors(report, case, config, keys, tensors, weights):
    """Names, numbers and keys of llama.cpp; a Gemma's norms have 1 added."""
    gemma, nomic = config["model_type"] == "gemma3_text", config["model_type"] == "nomic_bert"
    arch = "gemma-embedding" if gemma else "nomic-bert" if nomic else "modern-bert"
    wanted = {"general.architecture": arch, f"{arch}.attention.causal": False,
              **({f"{arch}.rope.freq_base": 100.0, "tokenizer.ggml.token_type_count": 2} if nomic else
                 {f"{arch}.attention.sliding_window": 4, f"{arch}.rope.freq_base_swa": 100.0, f"{arch}.rope.freq_base": 5000.0})}
    names = NOMIC_GGUF if nomic else MODERN_GGUF
    assert {key: keys.get(key) for key in wanted} == wanted, keys
    changed = 0
    for name, tensor in weights.items():
        module, ending = name.rsplit(".", 1)
        module = module.removeprefix("encoder.")
        if module.startswith("layers."):
            _, number, module = module.split(".", 2)
            theirs = f"blk.{number}.{names[module]}.{ending}"
        else:
            theirs = f"{names[module]}.{ending}"
        changed += not np.array_equal(tensors.pop(theirs), (tensor + 1 if gemma and "norm" in module else tensor).numpy())
    assert not tensors, tensors.keys()
    report.check(case, "tensors that a GGUF file changes", changed, 0)


def check_bert_tensors(report, case, config, keys, tensors, weights):
    """Names of llama.cpp, positions from the first token's."""
    assert keys["general.architecture"] == "bert" and keys["bert.attention.causal"] is False, keys
    prefix = "" if "embeddings.word_embeddings.weight" in weights else encoders.PREFIX[config["model_type"]]
    first = config["pad_token_id"] + 1 if encoders.is_shifted(config) else 0
    wanted = {}
    for module, name in encoder_names(config).items():
        for ending in (".weight", ".bias"):
            if prefix + module + ending in weights:
                wanted[name + ending] = weights[prefix + module + ending].numpy()
    wanted["position_embd.weight"] = wanted["position_embd.weight"][first:]
    assert keys["bert.context_length"] == len(wanted["position_embd.weight"])
    assert sorted(wanted) == sorted(tensors), sorted(set(wanted) ^ set(tensors))
    report.check(case, "tensors that a GGUF file changes",
                 sum(not np.array_equal(tensors[name], numbers) for name, numbers in wanted.items()), 0)


def check_gguf(report, case, path, folder, config, weights, given, expected, real):
    """As a GGUF file and back: the same hidden states."""
    graft("export", path, "-o", f"{folder}/a.gguf")
    check_tensors = check_modern_tensors if config["model_type"] in ("modernbert", "gemma3_text", "nomic_bert") else check_bert_tensors
    check_tensors(report, case, config, *read_gguf(f"{folder}/a.gguf"), weights)
    graft("convert", f"{folder}/a.gguf", "-o", f"{folder}/b.graft")
    graft("run", f"{folder}/b.graft", *given, "--out", f"{folder}/gguf")
    actual = np.load(f"{folder}/gguf/last_hidden_state.npy")[real]
    report.check(case, "hidden states of the GGUF file", error(actual, expected[real]), FORWARD_TOLERANCE)
    graft("export", f"{folder}/b.graft", "-o", f"{folder}/again.gguf")
    with open(f"{folder}/a.gguf", "rb") as one, open(f"{folder}/again.gguf", "rb") as other:
        assert one.read() == other.read(), "a GGUF file that is read and written is the same"
    graft("export", f"{folder}/b.graft", "-o", f"{folder}/folder")
    graft("convert", f"{folder}/folder", "-o", f"{folder}/c.graft")
    graft("run", f"{folder}/c.graft", *given, "--out", f"{folder}/hf")
    again = np.load(f"{folder}/hf/last_hidden_state.npy")[real]
    report.check(case, "hidden states of its folder", error(again, expected[real]), FORWARD_TOLERANCE)


def check(report, case, config, flags):
    weights = encoders.random_weights(config, seed=3, **flags)
    torch.manual_seed(4)
    with tempfile.TemporaryDirectory() as folder:
        stored = old_names(weights) if case == "bert_gamma" else weights
        write_folder(f"{folder}/model", config, stored)
        path = f"{folder}/model.graft"
        graft("convert", f"{folder}/model", "-o", path)
        tokens, mask, types, given = inputs_of(config, folder)
        for tensor in weights.values():
            tensor.requires_grad_()
        expected = encoders.forward(config, weights, tokens, mask, types)
        graft("run", path, *given, "--out", f"{folder}/out")
        assert {f"{name}.npy" for name in expected} == set(os.listdir(f"{folder}/out"))
        real = mask.bool().numpy()
        for name, value in expected.items():
            actual, wanted = np.load(f"{folder}/out/{name}.npy"), value.detach().numpy()
            if wanted.ndim == 3:
                actual, wanted = actual[real], wanted[real]
            report.check(case, name, error(actual, wanted), FORWARD_TOLERANCE)
        for name in ("logits", "pooler_output", "last_hidden_state"):
            if name in expected:
                check_gradients(report, case, path, folder, given, expected[name], name, weights, mask)
                break
        for tensor in weights.values():
            tensor.requires_grad_(False)
        check_export(report, case, path, folder, config, stored)
        if case in GGUF:
            hidden = expected["last_hidden_state"].detach().numpy()
            check_gguf(report, case, path, folder, config, weights, given, hidden, real)


# Beyond and below what groups are padded to.
TEXTS = ["a", "The quick brown fox jumps over", "short one", "a", "x" * 16, "y" * 17]


def check_embeddings(report, case, config, flags):
    """Texts of several lengths in one batch: padding changes nothing."""
    config = like(config, vocab_size=len(letter_text.IDS),
                  **({} if "n_positions" in config else {"max_position_embeddings": 64}))
    weights = encoders.random_weights(config, seed=5, **flags)
    with tempfile.TemporaryDirectory() as folder:
        letter_text.write_model(f"{folder}/letters")
        write_folder(f"{folder}/model", config, weights)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(f"{folder}/letters/{name}", f"{folder}/model/{name}")
        graft("convert", f"{folder}/model", "-o", f"{folder}/a.graft")
        with open(f"{folder}/texts.txt", "w") as out:
            out.write("".join(text + "\n" for text in TEXTS))
        states = [encoders.forward(config, weights, torch.tensor([letter_text.ids(text)]))["last_hidden_state"][0]
                  for text in TEXTS]
        for pooling, pooled in (("mean", [s.mean(0) for s in states]), ("cls", [s[0] for s in states])):
            graft("embed", f"{folder}/a.graft", "--file", f"{folder}/texts.txt", "--pooling", pooling, "--batch", 3, "-o",
                  f"{folder}/out.npy")
            got = np.load(f"{folder}/out.npy")
            report.check(case, f"embeddings, {pooling}", error(got, torch.stack(pooled).numpy()), FORWARD_TOLERANCE)
            assert (got[0] == got[3]).all(), "what stands beside a text changes nothing"


def write_modules(folder, modes, normalize):
    """As sentence-transformers writes them."""
    kinds = ["Transformer", "Pooling", "Normalize"][:3 if normalize else 2]
    with open(f"{folder}/modules.json", "w") as out:
        json.dump([{"idx": i, "name": str(i), "path": "" if i == 0 else f"{i}_{kind}",
                    "type": f"sentence_transformers.models.{kind}"} for i, kind in enumerate(kinds)], out)
    os.makedirs(f"{folder}/1_Pooling")
    with open(f"{folder}/1_Pooling/config.json", "w") as out:
        json.dump({"word_embedding_dimension": 24, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": False,
                   "pooling_mode_max_tokens": False, **{f"pooling_mode_{mode}": True for mode in modes}}, out)


def check_sentence_transformers(report):
    """Their folder decides how vectors are meant, there and back."""
    config, flags = CASES["bert"]
    weights = encoders.random_weights(config, seed=7, **flags)
    for modes, normalize, pooling in ((["cls_token"], True, "cls"), (["mean_tokens"], False, "mean"),
                                      (["cls_token", "max_tokens"], True, None)):
        with tempfile.TemporaryDirectory() as folder:
            write_folder(f"{folder}/model", config, weights)
            write_modules(f"{folder}/model", modes, normalize)
            told = graft("convert", f"{folder}/model", "-o", f"{folder}/a.graft")
            assert ("none of mean, cls and last alone" in told) == (pooling is None), told
            metadata = json.loads(graft("info", f"{folder}/a.graft", "--json"))["metadata"]
            known = metadata.get("text.pooling"), metadata.get("text.normalize")
            assert known == ((pooling, "yes" if normalize else "no") if pooling else (None, None)), known
            if pooling is None:
                continue
            graft("export", f"{folder}/a.graft", "-o", f"{folder}/back")
            graft("convert", f"{folder}/back", "-o", f"{folder}/b.graft")
            again = json.loads(graft("info", f"{folder}/b.graft", "--json"))["metadata"]
            assert known == (again["text.pooling"], again["text.normalize"]), again
            graft("export", f"{folder}/a.graft", "-o", f"{folder}/a.gguf")
            assert read_gguf(f"{folder}/a.gguf")[0]["bert.pooling_type"] == {"mean": 1, "cls": 2}[pooling]
    report.check("sentence_transformers", "poolings, there and back", 0, 0)


def write_dense(folder, number, weight, bias, activation="torch.nn.modules.linear.Identity"):
    where = f"{folder}/{number}_Dense"
    os.makedirs(where)
    with open(f"{where}/config.json", "w") as out:
        json.dump({"in_features": weight.shape[1], "out_features": weight.shape[0], "bias": bias is not None,
                   "activation_function": activation}, out)
    decoders.save_safetensors(f"{where}/model.safetensors",
                              {"linear.weight": weight, **({} if bias is None else {"linear.bias": bias})})
    with open(f"{folder}/modules.json") as file:
        modules = json.load(file)
    modules.insert(number, {"idx": number, "name": str(number), "path": f"{number}_Dense",
                            "type": "sentence_transformers.models.Dense"})
    with open(f"{folder}/modules.json", "w") as out:
        json.dump(modules, out)


def check_dense(report):
    """EmbeddingGemma as it is released: the mean, two linear layers, length 1; and its first dimensions alone."""
    config, flags = CASES["embedding_gemma"]
    config = like(config, vocab_size=len(letter_text.IDS), architectures=["Gemma3TextModel"])
    weights = encoders.random_weights(config, seed=8, **flags)
    wide, narrow, shift = torch.randn(40, 24) * 0.2, torch.randn(24, 40) * 0.2, torch.randn(24) * 0.2
    with tempfile.TemporaryDirectory() as folder:
        letter_text.write_model(f"{folder}/letters")
        write_folder(f"{folder}/model", config, weights)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(f"{folder}/letters/{name}", f"{folder}/model/{name}")
        write_modules(f"{folder}/model", ["mean_tokens"], True)
        write_dense(f"{folder}/model", 2, wide, None)
        write_dense(f"{folder}/model", 3, narrow, shift)
        graft("convert", f"{folder}/model", "-o", f"{folder}/a.graft")
        flags = [part for text in TEXTS for part in ("--text", text)]
        states = [encoders.forward(config, weights, torch.tensor([letter_text.ids(text)]))["last_hidden_state"][0]
                  for text in TEXTS]
        vectors = torch.stack([state.mean(0) for state in states]) @ wide.T @ narrow.T + shift
        for count in (24, 7):
            expected = torch.nn.functional.normalize(vectors[:, :count], dim=1).numpy()
            graft("embed", f"{folder}/a.graft", *flags, "--dimensions", count, "-o", f"{folder}/out.npy")
            report.check("dense", f"{count} dimensions of texts", error(np.load(f"{folder}/out.npy"), expected),
                         FORWARD_TOLERANCE)
        graft("export", f"{folder}/a.graft", "-o", f"{folder}/back")
        for number, weight in ((2, wide), (3, narrow)):
            back = decoders.load_safetensors(f"{folder}/back/{number}_Dense/model.safetensors")
            assert torch.equal(back["linear.weight"], weight) and ("linear.bias" in back) == (number == 3)
        graft("convert", f"{folder}/back", "-o", f"{folder}/b.graft")
        graft("embed", f"{folder}/b.graft", *flags, "--dimensions", count, "-o", f"{folder}/again.npy")
        assert np.array_equal(np.load(f"{folder}/again.npy"), np.load(f"{folder}/out.npy")), "an exported folder is the same"
        told = json.loads(graft("export", f"{folder}/a.graft", "-o", f"{folder}/a.gguf", "--json"))["notes"]
        assert any("2 of them are left out" in note for note in told), told
        # Where the layers cannot come before the pooling they are left out, with a reason.
        write_dense(f"{folder}/model", 4, torch.randn(24, 24), None, "torch.nn.modules.activation.Tanh")
        told = graft("convert", f"{folder}/model", "-o", f"{folder}/c.graft")
        assert "its activation is torch.nn.modules.activation.Tanh" in told, told


WORDS = ["a", "the", "un", "##able", "##b", "able", "b", "c", "cafe", "!", ","]
SENTENCES = ["The unable cafe!", "a, B able", "Caf\u00e9 the bb", "xyz c"]


def check_vocab_txt(report):
    """BERT's vocab.txt alone means what its tokenizer.json says; so do RoBERTa's two files."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    config, flags = CASES["bert"]
    config = like(config, vocab_size=len(special) + len(WORDS))
    with tempfile.TemporaryDirectory() as folder:
        write_folder(f"{folder}/model", config, encoders.random_weights(config, seed=1, **flags))
        with open(f"{folder}/model/vocab.txt", "w") as out:
            out.write("".join(word + "\n" for word in special + WORDS))
        graft("convert", f"{folder}/model", "-o", f"{folder}/a.graft")
        ids = {word: i for i, word in enumerate(special + WORDS)}
        wanted = [["the", "un", "##able", "cafe", "!"], ["a", ",", "b", "able"], ["cafe", "the", "b", "##b"], ["[UNK]", "c"]]
        for sentence, words in zip(SENTENCES, wanted):
            got = graft("tokenize", f"{folder}/a.graft", "--ids", sentence).split()
            assert [int(i.strip(",[]")) for i in got] == [ids[word] for word in ["[CLS]"] + words + ["[SEP]"]], (sentence, got)
        with open(f"{folder}/model/tokenizer_config.json", "w") as out:
            json.dump({"do_lower_case": False}, out)
        graft("convert", f"{folder}/model", "-o", f"{folder}/a.graft")
        got = graft("tokenize", f"{folder}/a.graft", "--ids", "The b").split()
        assert [int(i.strip(",[]")) for i in got] == [ids[word] for word in ("[CLS]", "[UNK]", "b", "[SEP]")], got
    config, flags = CASES["roberta"]
    with tempfile.TemporaryDirectory() as folder:
        words = ["<s>", "<pad>", "</s>", "<unk>", "a", "b", "\u0120", "ab", "\u0120ab", "<mask>"]
        ids = {word: i for i, word in enumerate(words)}
        config = like(config, vocab_size=len(words))
        write_folder(f"{folder}/model", config, encoders.random_weights(config, seed=1, **flags))
        with open(f"{folder}/model/vocab.json", "w") as out:
            json.dump(ids, out)
        with open(f"{folder}/model/merges.txt", "w") as out:
            out.write("#version: 0.2\na b\n\u0120 ab\n")
        graft("convert", f"{folder}/model", "-o", f"{folder}/a.graft")
        got = graft("tokenize", f"{folder}/a.graft", "--ids", "ab abb").split()
        expected = [ids[word] for word in ("<s>", "ab", "\u0120ab", "b", "</s>")]
        assert [int(i.strip(",[]")) for i in got] == expected, got
    report.check("vocab.txt", "tokens as the files mean them", 0, 0)


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    report = Report()
    if len(sys.argv) == 2:
        check_sentence_transformers(report)
        check_dense(report)
        check_vocab_txt(report)
    for case in sys.argv[2:] or CASES:
        check(report, case, *CASES[case])
        if case in ("bert", "roberta_masked", "distilbert_classes", "modern", "embedding_gemma", "nomic"):
            check_embeddings(report, case, *CASES[case])
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())

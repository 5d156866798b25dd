"""Models and adapters on their way back to the files of other programs, compared byte for byte by readers of our own.

Usage: export_test.py GRAFT [-v] [TEST ...]
Real models come from GRAFT_TEST_DATA, or shared/data beside the repository; tests skip where those are absent.
"""

import json
import os
import shutil
import struct
import unittest

import cli
import files

HERE = os.path.dirname(os.path.abspath(__file__))
SEEDS = os.path.join(HERE, "../fuzz/corpus/gguf")
DATA = os.environ.get("GRAFT_TEST_DATA", os.path.join(HERE, "../../../shared/data"))

CONFIG = {"model_type": "llama", "hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2,
          "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 16, "max_position_embeddings": 32,
          "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False}
HEADS = {"q_proj": 2, "k_proj": 1}
LINEAR = {"self_attn.q_proj": (8, 8), "self_attn.k_proj": (4, 8), "self_attn.v_proj": (4, 8), "self_attn.o_proj": (8, 8),
          "mlp.gate_proj": (12, 8), "mlp.up_proj": (12, 8), "mlp.down_proj": (8, 12)}
GGUF_NAMES = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
              "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down"}


def tiny_weights(times=1):
    """`times` as wide."""
    n = 8 * times
    shapes = {"model.embed_tokens.weight": (16, n), "lm_head.weight": (16, n), "model.norm.weight": (n,)}
    for i in range(2):
        for name, shape in {"input_layernorm": (8,), "post_attention_layernorm": (8,), **LINEAR}.items():
            shapes[f"model.layers.{i}.{name}.weight"] = tuple(times * size for size in shape)
    out = {}
    for seed, (name, shape) in enumerate(shapes.items()):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        out[name] = "F32", shape, files.pack(cli.random_floats(count, seed + 1))
    return out


def rows_of(tensor):
    _, (rows, columns), raw = tensor
    return [raw[4 * columns * i:4 * columns * (i + 1)] for i in range(rows)]


class FilesTest(cli.CliTest):
    def write_tiny(self, weights=None, **config):
        os.makedirs(self.path("tiny"), exist_ok=True)
        with open(self.path("tiny/config.json"), "w") as out:
            json.dump({**CONFIG, **config}, out)
        files.save_safetensors(self.path("tiny/model.safetensors"), weights or tiny_weights())
        self.graft("convert", "tiny", "-o", "tiny.graft")

    def data(self, name):
        path = os.path.join(DATA, name)
        if not os.path.exists(path):
            self.skipTest(f"{path} is not there")
        return path

    def logits(self, model, *flags):
        cli.save_npy(self.path("tokens.npy"), [1, 5, 2, 9, 3, 3, 8, 0], (2, 4), "i")
        self.graft("run", model, "--input", "tokens=tokens.npy", "--out", "out", *flags)
        return cli.load_npy(self.path("out/logits.npy"))

    def told(self, *arguments):
        return json.loads(self.graft("export", *arguments, "--json"))


class ExportTest(FilesTest):
    def test_a_folder_comes_back(self):
        weights = tiny_weights()
        self.write_tiny(weights)
        self.assertEqual(self.told("tiny.graft", "-o", "back")["tensors"], len(weights))
        self.assertEqual(files.load_safetensors(self.path("back/model.safetensors")), weights)
        with open(self.path("back/config.json")) as config:
            self.assertEqual(json.load(config), {**CONFIG, "torch_dtype": "float32"})
        self.graft("export", "tiny.graft", "-o", "plain.safetensors")
        self.assertEqual(files.load_safetensors(self.path("plain.safetensors")), weights)
        # By way of GGUF, whose rows of queries and keys are ordered otherwise.
        self.graft("export", "tiny.graft", "-o", "tiny.gguf")
        keys, tensors = files.load_gguf(self.path("tiny.gguf"))
        self.assertEqual(keys["general.architecture"], (8, "llama"))
        self.assertEqual(keys["llama.attention.head_count_kv"], (4, 1))
        self.assertEqual(len(tensors), len(weights))
        query = weights["model.layers.1.self_attn.q_proj.weight"]
        self.assertEqual(tensors["blk.1.attn_q.weight"], (0, (8, 8), b"".join(files.neighbours(rows_of(query), 2))))
        self.assertEqual(tensors["blk.1.ffn_down.weight"][2], weights["model.layers.1.mlp.down_proj.weight"][2])
        self.graft("convert", "tiny.gguf", "-o", "gguf.graft")
        self.graft("export", "gguf.graft", "-o", "again")
        self.assertEqual(files.load_safetensors(self.path("again/model.safetensors")), weights)
        self.graft("convert", "again", "-o", "again.graft")
        self.assertEqual(self.logits("again.graft"), self.logits("tiny.graft"))

    def test_windows_that_readers_of_gguf_ignore(self):
        self.write_tiny(model_type="mistral", sliding_window=5)
        self.fails("export", "tiny.graft", "-o", "tiny.gguf", says=["llama.cpp does not read", '"sliding_window"'])
        self.assertFalse(os.path.exists(self.path("tiny.gguf")))
        self.graft("export", "tiny.graft", "-o", "folder")
        self.write_tiny(model_type="mistral", sliding_window=64)  # beyond the context of 32
        notes = " ".join(self.told("tiny.graft", "-o", "tiny.gguf")["notes"])
        self.assertIn("within the model's context", notes)

    def test_endings_that_are_no_format(self):
        self.fails("export", "mlp.graft", "-o", "z.xyz", says=['"z.xyz"', ".gguf, .safetensors, .onnx or .tflite"])
        self.assertFalse(os.path.exists(self.path("z.xyz")))

    def test_dtypes(self):
        halves = {}
        for name, (_, shape, raw) in tiny_weights().items():  # bfloat16 is the upper half of a float32
            halves[name] = "BF16", shape, b"".join(raw[i + 2:i + 4] for i in range(0, len(raw), 4))
        self.write_tiny(halves)
        self.graft("export", "tiny.graft", "-o", "back", "--dtype", "bf16")
        self.assertEqual(files.load_safetensors(self.path("back/model.safetensors")), halves)
        with open(self.path("back/config.json")) as config:
            self.assertEqual(json.load(config)["torch_dtype"], "bfloat16")
        self.graft("export", "tiny.graft", "-o", "half.gguf", "--dtype", "f16")
        keys, tensors = files.load_gguf(self.path("half.gguf"))
        self.assertEqual(keys["general.file_type"], (4, 1))
        self.assertEqual({len(dims): kind for kind, dims, _ in tensors.values()}, {1: 0, 2: 1})
        up = halves["model.layers.0.mlp.up_proj.weight"][2]
        wide = struct.unpack("<96f", b"".join(b"\0\0" + up[i:i + 2] for i in range(0, len(up), 2)))
        self.assertEqual(tensors["blk.0.ffn_up.weight"][2], struct.pack("<96e", *wide))
        told = self.told("tiny.graft", "-o", "q8.gguf", "--dtype", "q8_0")
        self.assertIn("become f16: the rows are no whole number of q8_0 blocks", told["notes"][0])
        _, tensors = files.load_gguf(self.path("q8.gguf"))  # rows of 8 and 12
        self.assertEqual({len(dims): kind for kind, dims, _ in tensors.values()}, {1: 0, 2: 1})
        self.fails("export", "tiny.graft", "-o", "x.safetensors", "--dtype", "q8_0", says=["q8_0", "bf16"])
        self.assertFalse(os.path.exists(self.path("x.safetensors")))
        self.assertEqual(self.run_graft("export", "tiny.graft", "-o", "x", "--dtype", "q3").returncode, 2)

    def test_a_language_model_as_onnx(self):
        """Which has no op of its own for what the graph does, but can compose it."""
        self.write_tiny()
        self.graft("export", "tiny.graft", "-o", "tiny.onnx")
        self.graft("convert", "tiny.onnx", "--bind", "batch=2,seq=4", "-o", "onnx.graft")
        # The same ops in another order of sums.
        self.assertLess(cli.difference(self.logits("onnx.graft"), self.logits("tiny.graft")), 1e-5)

    def write_imatrix(self, path, sums):
        """As llama.cpp writes it: name -> sums of squares, over 2 tokens."""
        tensors = {}
        for name, numbers in sums.items():
            tensors[f"{name}.in_sum2"] = numbers
            tensors[f"{name}.counts"] = [2.0]
        text = lambda string: struct.pack("<Q", len(string)) + string.encode()
        head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), 1)
        head += text("general.type") + struct.pack("<I", 8) + text("imatrix")
        blocks = b""
        for name, numbers in tensors.items():
            head += text(name) + struct.pack("<IQIQ", 1, len(numbers), 0, len(blocks))
            blocks += struct.pack(f"<{len(numbers)}f", *numbers)
            blocks += b"\0" * (-len(blocks) % 32)
        with open(self.path(path), "wb") as out:
            out.write(head + b"\0" * (-len(head) % 32) + blocks)

    def test_importance(self):
        """A matrix of rows of 32, of whose columns two matter."""
        self.write_tiny(tiny_weights(4), hidden_size=32, intermediate_size=48)
        names = [f"blk.0.{name}.weight" for name in ("attn_q", "attn_k", "ffn_up")]
        self.write_imatrix("im.gguf", {name: [100.0, 100.0] + [0.01] * 30 for name in names})
        plain = self.told("tiny.graft", "-o", "plain.gguf", "--dtype", "q4_0")
        searched = self.told("tiny.graft", "-o", "searched.gguf", "--dtype", "q4_0", "--imatrix", "im.gguf")
        self.assertIn("of 3 matrices", " ".join(searched["notes"]))
        errors = {block["name"]: block for block in searched["blocks"]}
        self.assertEqual({block["name"] for block in plain["blocks"]}, set(errors))
        self.assertEqual({name for name, block in errors.items() if "weighted_error" in block}, set(names))
        for block in plain["blocks"]:
            self.assertNotIn("weighted_error", block)
            found = errors[block["name"]]
            self.assertLess(found.get("weighted_error", found["error"]), block["error"], block["name"])
        # The same for people.
        table = self.graft("export", "tiny.graft", "-o", "plain.gguf", "--dtype", "q4_0", "--imatrix", "im.gguf", "--errors")
        rows = {line.split()[0]: line.split()[1:] for line in table.splitlines()[:1 + len(errors)]}
        self.assertEqual(rows.pop("matrix"), ["type", "error", "weighted"])
        for name, block in errors.items():
            shares = [block[key] for key in ("error", "weighted_error") if key in block]
            self.assertEqual(rows[name], [block["dtype"], *(f"{100 * share:.2f}%" for share in shares)])
        self.write_imatrix("other.gguf", {names[0]: [1.0] * 16})
        flags = ("export", "tiny.graft", "-o", "x.gguf", "--dtype")
        self.fails(*flags, "q4_0", "--imatrix", "other.gguf", says=["attn_q", "another model"])
        self.fails(*flags, "q4_0", "--imatrix", "plain.gguf", says=["importance matrix"])
        self.fails(*flags, "q4_0", "--imatrix", "no.gguf", says=["no.gguf"])
        self.fails(*flags, "f16", "--imatrix", "im.gguf", says=["blocks"])
        self.assertFalse(os.path.exists(self.path("x.gguf")))

    def test_gguf_files_come_back(self):
        for seed in ("llama", "gemma3", "gpt2", "phi3", "qwen3", "blocks"):
            with self.subTest(seed):
                shutil.copy(f"{SEEDS}/{seed}", self.path("in.gguf"))
                self.graft("convert", "in.gguf", "-o", "in.graft")
                self.graft("export", "in.graft", "-o", "out.gguf")
                (keys, tensors), (back, same) = files.load_gguf(self.path("in.gguf")), files.load_gguf(self.path("out.gguf"))
                self.assertEqual(list(back.items()), list(keys.items()))
                self.assertEqual(same, tensors)
                # And by way of a folder: the same logits.
                self.graft("export", "in.graft", "-o", "folder")
                self.graft("convert", "folder", "-o", "folder.graft")
                flags = ["--tokens", "1", "--max-tokens", "3", "--json"]
                tokens = [json.loads(self.graft("generate", model, *flags))["tokens"] for model in ("in.graft", "folder.graft")]
                self.assertEqual(*tokens)
                shutil.rmtree(self.path("folder"))

    def test_any_model_as_safetensors(self):
        self.graft("convert", "--example", "lenet", "-o", "lenet.onnx")
        self.graft("convert", "lenet.onnx", "-o", "lenet.graft")
        self.graft("export", "lenet.graft", "-o", "lenet.safetensors")
        tensors = files.load_safetensors(self.path("lenet.safetensors"))
        with open(self.path("lenet.onnx"), "rb") as file:
            source = file.read()
        shapes = sorted(shape for _, shape, _ in tensors.values())
        self.assertEqual(len(tensors), 8)
        self.assertIn(4, map(len, shapes))
        for name, (dtype, shape, raw) in tensors.items():  # which holds each as it is
            self.assertEqual(dtype, "F32")
            self.assertIn(raw, source, name)
        self.fails("export", "lenet.graft", "-o", "folder", says=["lenet.graft", "does not remember"])
        self.fails("export", "lenet.graft", "-o", "lenet.gguf", says=["does not remember"])
        self.assertFalse(os.path.exists(self.path("folder")))

    def test_weights_go_back_into_the_onnx_file(self):
        self.graft("convert", "--example", "lenet", "-o", "lenet.onnx")
        self.graft("convert", "lenet.onnx", "-o", "lenet.graft")
        self.graft("export", "lenet.graft", "-o", "same.onnx", "--source", "lenet.onnx")
        with open(self.path("lenet.onnx"), "rb") as first, open(self.path("same.onnx"), "rb") as second:
            self.assertEqual(second.read(), first.read())
        self.graft("train", "lenet.graft", "--data", "digits:?count=64", "--batch", 32, "--steps", 2, "--quiet", "-o",
                   "trained.graft")
        self.graft("export", "trained.graft", "-o", "trained.onnx", "--source", "lenet.onnx")
        self.graft("convert", "trained.onnx", "-o", "again.graft")
        self.images(3)
        trained = self.outputs("trained.graft")
        self.assertEqual(self.outputs("again.graft"), trained)
        self.assertNotEqual(self.outputs("lenet.graft"), trained)
        self.fails("export", "mlp.graft", "-o", "x.onnx", "--source", "lenet.onnx", says=["fc1.weight", "[500, 800]"])
        self.fails("export", "lenet.graft", "-o", "x.onnx", "--source", "lenet.graft", says=["lenet.graft", "ONNX"])
        self.assertFalse(os.path.exists(self.path("x.onnx")))

    def test_tinystories(self):
        source = self.data("llm-tinystories-656k")
        self.graft("convert", source, "-o", "story.graft")
        self.graft("export", "story.graft", "-o", "story")
        original = files.load_safetensors(f"{source}/model.safetensors")
        self.assertEqual(files.load_safetensors(self.path("story/model.safetensors")), original)
        self.graft("convert", "story", "-o", "again.graft")
        self.graft("export", "story.graft", "-o", "story.gguf")
        self.graft("convert", "story.gguf", "-o", "by_gguf.graft")
        prompt = ["--prompt", "One day, Lily and Tom went", "--max-tokens", "24", "--json"]
        texts = [json.loads(self.graft("generate", model, *prompt)) for model in ("story.graft", "again.graft", "by_gguf.graft")]
        self.assertEqual(texts[1]["prompt_tokens"], texts[0]["prompt_tokens"])
        self.assertEqual(texts[1]["text"], texts[0]["text"])
        self.graft("export", "by_gguf.graft", "-o", "by_gguf")
        tied = {name.replace("lm_head", "model.embed_tokens"): tensor for name, tensor in original.items()}
        self.assertEqual(files.load_safetensors(self.path("by_gguf/model.safetensors")), tied)

    def test_tinystories_in_blocks(self):
        source = self.data("llm-tinystories-656k/TinyStories-656K-Q8_0.gguf")
        self.graft("convert", source, "-o", "story.graft")
        self.graft("export", "story.graft", "-o", "back.gguf")
        (keys, tensors), (back, same) = files.load_gguf(source), files.load_gguf(self.path("back.gguf"))
        self.assertEqual(list(back.items()), list(keys.items()), "tokenizer included, in its order")
        self.assertEqual(same, tensors)
        self.graft("export", "story.graft", "-o", "story")
        wide = files.load_safetensors(self.path("story/model.safetensors"))["model.layers.0.self_attn.k_proj.weight"]
        rows, columns = wide[1]
        raw = tensors["blk.0.attn_k.weight"][2]
        numbers = []
        for at in range(0, len(raw), 34):
            scale = struct.unpack("<e", raw[at:at + 2])[0]
            numbers += [scale * q for q in struct.unpack("<32b", raw[at + 2:at + 34])]
        plain = [files.pack(numbers[i * columns:(i + 1) * columns]) for i in range(rows)]
        self.assertEqual(files.neighbours(rows_of(wide), 4), plain)
        prompt = ["--prompt", "One day", "--max-tokens", "24"]
        self.graft("convert", "story", "-o", "again.graft")
        self.assertEqual(self.graft("generate", "again.graft", *prompt), self.graft("generate", "story.graft", *prompt))

    def test_stories260k(self):
        source = self.data("llm-stories260k/stories260K.bin")
        with open(source, "rb") as file:
            data = file.read()
        dim, ffn, layers, heads, kv, vocabulary, context = struct.unpack("<7i", data[:28])
        at, weights = 28, {}

        def take(*shape):
            nonlocal at
            count = 4
            for size in shape:
                count *= size
            at += count
            return "F32", shape, data[at - count:at]

        weights["model.embed_tokens.weight"] = take(abs(vocabulary), dim)
        width = dim // heads * kv
        for name, shape in (("input_layernorm", (dim,)), ("self_attn.q_proj", (dim, dim)),
                            ("self_attn.k_proj", (width, dim)), ("self_attn.v_proj", (width, dim)),
                            ("self_attn.o_proj", (dim, dim)), ("post_attention_layernorm", (dim,)),
                            ("mlp.gate_proj", (ffn, dim)), ("mlp.down_proj", (dim, ffn)), ("mlp.up_proj", (ffn, dim))):
            for i in range(layers):
                weights[f"model.layers.{i}.{name}.weight"] = take(*shape)
        weights["model.norm.weight"] = take(dim)
        os.makedirs(self.path("story"))
        shutil.copy(self.data("llm-stories260k/tok512.model"), self.path("story/tokenizer.model"))
        config = {**CONFIG, "hidden_size": dim, "intermediate_size": ffn, "num_hidden_layers": layers,
                  "num_attention_heads": heads, "num_key_value_heads": kv, "vocab_size": abs(vocabulary),
                  "max_position_embeddings": context, "tie_word_embeddings": True}
        with open(self.path("story/config.json"), "w") as out:
            json.dump(config, out)
        files.save_safetensors(self.path("story/model.safetensors"), weights)
        self.graft("convert", "story", "-o", "story.graft")
        self.graft("export", "story.graft", "-o", "back")
        self.assertEqual(files.load_safetensors(self.path("back/model.safetensors")), weights)
        self.graft("export", "story.graft", "-o", "story.gguf")
        self.graft("convert", "story.gguf", "-o", "gguf.graft")
        self.graft("export", "gguf.graft", "-o", "again")
        self.assertEqual(files.load_safetensors(self.path("again/model.safetensors")), weights)
        self.graft("convert", "back", "-o", "back.graft")
        self.graft("convert", "again", "-o", "again.graft")
        # The tokenizer came along both ways.
        prompts = [json.loads(self.graft("generate", model, "--prompt", "Once upon a time, Zoë", "--max-tokens", "1", "--json"))
                   for model in ("story.graft", "back.graft", "gguf.graft", "again.graft")]
        for prompt in prompts[1:]:
            self.assertEqual(prompt["prompt_tokens"], prompts[0]["prompt_tokens"])


class AdapterTest(FilesTest):
    """Files of PEFT and of llama.cpp, made here by hand."""

    def setUp(self):
        super().setUp()
        self.write_tiny()
        self.adapter = {}  # layer -> (A, B), rows of numbers
        seed = 100
        for i in range(2):
            for kind in ("self_attn.q_proj", "self_attn.k_proj", "mlp.down_proj"):
                rows, columns = LINEAR[kind]
                rank = 3 if kind == "mlp.down_proj" else 2
                a, b = cli.random_floats(rank * columns, seed), cli.random_floats(rows * rank, seed + 1)
                self.adapter[f"model.layers.{i}.{kind}"] = (rank, columns, a), (rows, rank, b)
                seed += 2

    def write_peft(self, **config):
        os.makedirs(self.path("peft"), exist_ok=True)
        with open(self.path("peft/adapter_config.json"), "w") as out:
            json.dump({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "rank_pattern": {"down_proj": 3}, "bias": "none",
                       "target_modules": ["q_proj", "k_proj", "down_proj"], **config}, out)
        tensors = {}
        for layer, (a, b) in self.adapter.items():
            for name, (rows, columns, numbers) in (("A", a), ("B", b)):
                tensors[f"base_model.model.{layer}.lora_{name}.weight"] = "F32", (rows, columns), files.pack(numbers)
        files.save_safetensors(self.path("peft/adapter_model.safetensors"), tensors)
        return tensors

    def merged_by_hand(self, alpha, own=None):
        weights = tiny_weights()
        for layer, ((rank, columns, a), (rows, _, b)) in self.adapter.items():
            scale = (own or {}).get(layer.split(".")[-1], alpha) / rank
            name = layer + ".weight"
            numbers = files.floats(weights[name][2])
            for i in range(rows):
                for k in range(columns):
                    numbers[i * columns + k] += scale * sum(b[i * rank + r] * a[r * columns + k] for r in range(rank))
            weights[name] = "F32", (rows, columns), files.pack(numbers)
        os.rename(self.path("tiny.graft"), self.path("base.graft"))
        self.write_tiny(weights)
        os.rename(self.path("tiny.graft"), self.path("by_hand.graft"))
        os.rename(self.path("base.graft"), self.path("tiny.graft"))
        return self.logits("by_hand.graft")

    def test_peft_there_and_back(self):
        tensors = self.write_peft(alpha_pattern={"q_proj": 5.5})
        plain = self.logits("tiny.graft")
        on = self.logits("tiny.graft", "--adapter", "peft")
        self.assertGreater(cli.difference(on, plain), 0.01)
        # f32 both, other orders of summation.
        self.assertLess(cli.difference(on, self.merged_by_hand(4, {"q_proj": 5.5})), 1e-5)
        self.graft("convert", "peft", "--base", "tiny.graft", "-o", "adapter.graft")
        self.assertEqual(self.logits("tiny.graft", "--adapter", "adapter.graft"), on)
        self.graft("export", "adapter.graft", "-o", "back")
        self.assertEqual(files.load_safetensors(self.path("back/adapter_model.safetensors")), tensors)
        with open(self.path("back/adapter_config.json")) as file:
            config = json.load(file)
        self.assertEqual((config["peft_type"], config["r"], config["lora_alpha"]), ("LORA", 2, 4))
        self.assertEqual(config["target_modules"], ["down_proj", "k_proj", "q_proj"])
        self.assertEqual(config["rank_pattern"], {f"model.layers.{i}.mlp.down_proj": 3 for i in range(2)})
        self.assertEqual(config["alpha_pattern"], {f"model.layers.{i}.self_attn.q_proj": 5.5 for i in range(2)})
        self.assertEqual(self.logits("tiny.graft", "--adapter", "back"), on)
        self.fails("export", "adapter.graft", "-o", "a.gguf", says=["alphas", "5.5"])
        merged = self.graft("merge", "tiny.graft", "--adapter", "peft", "-o", "merged.graft")
        self.assertIn("merged.graft", merged)
        self.assertLess(cli.difference(self.logits("merged.graft"), on), 1e-5)

    def test_training_goes_on_with_a_peft_adapter(self):
        tensors = self.write_peft(alpha_pattern={"q_proj": 5.5})
        cli.save_npy(self.path("x.npy"), [1, 5, 2, 9, 3, 3, 8, 0], (2, 4), "i")
        cli.save_npy(self.path("y.npy"), [5, 2, 9, 1, 3, 8, 0, 7], (2, 4), "i")
        data = ["--data", "npy:x.npy,y.npy?integers=yes", "--seq", 4]
        before = json.loads(self.graft("eval", "tiny.graft", "--adapter", "peft", *data, "--json"))["loss"]
        self.graft("train", "tiny.graft", "--adapter", "peft", *data, "--batch", 2, "--steps", 5, "--lr", "0.02", "--quiet",
                   "-o", "more.graft")
        after = json.loads(self.graft("eval", "tiny.graft", "--adapter", "more.graft", *data, "--json"))["loss"]
        self.assertLess(after, before)
        self.graft("export", "more.graft", "-o", "more")
        trained = files.load_safetensors(self.path("more/adapter_model.safetensors"))
        self.assertEqual({n: t[:2] for n, t in trained.items()}, {n: t[:2] for n, t in tensors.items()})
        self.assertTrue(all(trained[name] != tensors[name] for name in tensors), "each of them was trained")
        with open(self.path("more/adapter_config.json")) as file:
            config = json.load(file)
        self.assertEqual(config["alpha_pattern"], {f"model.layers.{i}.self_attn.q_proj": 5.5 for i in range(2)})
        self.assertEqual(config["lora_alpha"], 4)

    def test_gguf_there_and_back(self):
        self.write_peft()
        on = self.logits("tiny.graft", "--adapter", "peft")
        self.graft("convert", "peft", "--base", "tiny.graft", "-o", "adapter.graft")
        self.graft("export", "adapter.graft", "-o", "adapter.gguf")
        keys, tensors = files.load_gguf(self.path("adapter.gguf"))
        self.assertEqual(list(keys.items()), [("general.architecture", (8, "llama")), ("general.type", (8, "adapter")),
                                              ("adapter.type", (8, "lora")), ("adapter.lora.alpha", (6, 4.0))])
        expected = {}
        for layer, (a, b) in self.adapter.items():
            kind = layer.split(".")[-1]
            name = f"blk.{layer.split('.')[2]}.{GGUF_NAMES[kind]}.weight"
            for end, (rows, columns, numbers) in ((".lora_a", a), (".lora_b", b)):
                lines = [numbers[i * columns:(i + 1) * columns] for i in range(rows)]
                if end == ".lora_b" and kind in HEADS:
                    lines = files.neighbours(lines, HEADS[kind])
                expected[name + end] = 0, (columns, rows), files.pack(sum(lines, []))
        self.assertEqual(tensors, expected)
        self.assertEqual(self.logits("tiny.graft", "--adapter", "adapter.gguf"), on)
        # On the same model by way of GGUF, whichever file the adapter comes from.
        self.graft("export", "tiny.graft", "-o", "tiny.gguf")
        self.graft("convert", "tiny.gguf", "-o", "other.graft")
        # graft's own remembers the weights that it was made for: these have their rows in another order.
        for adapter in (["adapter.gguf"], ["peft"], ["adapter.graft", "--any-base"]):
            self.assertLess(cli.difference(self.logits("other.graft", "--adapter", *adapter), on), 1e-5, adapter)
        self.fails("run", "other.graft", "--adapter", "adapter.graft", "--input", "tokens=tokens.npy", "--out", "out",
                   says=["was made for \"tiny.graft\"", "\"other.graft\""])
        self.graft("convert", "adapter.gguf", "--base", "other.graft", "-o", "other_adapter.graft")
        self.graft("export", "other_adapter.graft", "-o", "back.gguf")
        self.assertEqual(files.load_gguf(self.path("back.gguf")), (keys, tensors))

    def test_merging_into_blocks(self):
        shutil.copy(f"{SEEDS}/blocks", self.path("blocks.gguf"))
        self.graft("convert", "blocks.gguf", "-o", "blocks.graft")
        info = json.loads(self.graft("info", "blocks.graft", "--json"))
        self.assertTrue(info)
        cli.save_npy(self.path("tokens.npy"), [1, 2, 3, 0], (1, 4), "i")
        cli.save_npy(self.path("labels.npy"), [2, 3, 0, 1], (1, 4), "i")
        self.graft("train", "blocks.graft", "--data", "npy:tokens.npy,labels.npy?integers=yes", "--seq", "4", "--batch", "1",
                   "--lora", "r=2", "--lr", "0.1", "--steps", "3", "-o", "adapter.graft")

        def logits(model, *flags):
            self.graft("run", model, "--input", "tokens=tokens.npy", "--out", "out", *flags)
            return cli.load_npy(self.path("out/logits.npy"))

        on = logits("blocks.graft", "--adapter", "adapter.graft")
        self.assertGreater(cli.difference(on, logits("blocks.graft")), 1e-3)
        self.graft("merge", "blocks.graft", "--adapter", "adapter.graft", "-o", "merged.graft")
        # Blocks are dequantized to f32 both ways.
        self.assertLess(cli.difference(logits("merged.graft"), on), 1e-5)
        self.graft("merge", "blocks.graft", "--adapter", "adapter.graft", "--quantize", "q8_0", "-o", "q8.graft")
        # A q8_0 number is off by at most 1/254 of its block's largest; some layers in a row.
        self.assertLess(cli.difference(logits("q8.graft"), on), 0.05)
        self.assertLess(os.path.getsize(self.path("q8.graft")), os.path.getsize(self.path("merged.graft")))

    def test_what_is_wrong_is_told(self):
        def wrong(says, **config):
            self.write_peft(**config)
            self.fails("run", "tiny.graft", "--adapter", "peft", "--input", "tokens=tokens.npy", "--out", "out", says=says)

        self.logits("tiny.graft")  # writes tokens.npy
        wrong(["0 magnitudes", "\"use_dora\" is true"], use_dora=True)
        wrong(["\"IA3\"", "LORA"], peft_type="IA3")
        wrong(["lora_alpha"], lora_alpha="much")
        wrong(["bias"], bias="all")
        wrong(["regular expression"], alpha_pattern={".*q_proj": 3})
        tensors = self.write_peft()
        name = "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
        changed = {
            "A and no B": {k: v for k, v in tensors.items() if k != name.replace("lora_A", "lora_B")},
            "by its matrices": {**tensors, name: ("F32", (4, 4), tensors[name][2])},
            "does not have": {k.replace("layers.1", "layers.7"): v for k, v in tensors.items()},
            "no matrix A or B": {**tensors, "base_model.model.model.norm.weight": ("F32", (1,), b"\0\0\0\0")},
            "1 magnitudes": {**tensors, name.replace("lora_A.weight", "lora_magnitude_vector"): ("F32", (1,), b"\0\0\0\0")},
            "do not lie": None}
        for says, content in changed.items():
            if content is None:
                with open(self.path("peft/adapter_model.safetensors"), "r+b") as file:
                    file.truncate(os.path.getsize(file.name) - 5)
            else:
                files.save_safetensors(self.path("peft/adapter_model.safetensors"), content)
            self.fails("merge", "tiny.graft", "--adapter", "peft", "-o", "m.graft", says=[says])
        os.remove(self.path("peft/adapter_config.json"))
        self.fails("merge", "tiny.graft", "--adapter", "peft", "-o", "m.graft", says=["adapter_config.json"])
        self.graft("export", "tiny.graft", "-o", "tiny.gguf")
        self.fails("merge", "tiny.graft", "--adapter", "tiny.gguf", "-o", "m.graft", says=["holds no adapter"])
        self.fails("merge", "tiny.graft", "--adapter", "tiny.graft", "-o", "m.graft", says=["no adapter"])
        self.assertFalse(os.path.exists(self.path("m.graft")))


if __name__ == "__main__":
    cli.main()

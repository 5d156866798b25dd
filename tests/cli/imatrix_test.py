"""graft imatrix: importance matrices of a text, beside sums of what `graft run` gives; quantizing by them; what is
refused."""

import json
import os
import struct

import cli
import letter_text

TEXT = "ask: a bcd, yes it is; so why not. " * 6


def read_gguf(path):
    """Tensors of f32 numbers by name, and the metadata as far as strings, numbers and lists of strings go."""
    with open(path, "rb") as file:
        data = file.read()
    at = 24
    count, keys = struct.unpack_from("<QQ", data, 8)

    def take(code):
        nonlocal at
        at += struct.calcsize("<" + code)
        return struct.unpack_from("<" + code, data, at - struct.calcsize("<" + code))[0]

    def text():
        return take(f"{take('Q')}s").decode()

    def value(kind):
        if kind != 9:
            return text() if kind == 8 else take({4: "I", 5: "i", 6: "f"}[kind])
        inner = take("I")
        return [value(inner) for _ in range(take("Q"))]

    metadata, places = {}, []
    for _ in range(keys):
        name = text()
        metadata[name] = value(take("I"))
    for _ in range(count):
        name = text()
        dims = [take("Q") for _ in range(take("I"))]
        places.append((name, dims, take("I"), take("Q")))
    start = -(-at // 32) * 32
    tensors = {}
    for name, dims, kind, offset in places:
        assert kind == 0 and len(dims) == 1, name
        tensors[name] = list(struct.unpack_from(f"<{dims[0]}f", data, start + offset))
    return metadata, tensors


class Imatrix(letter_text.LetterTest):
    def setUp(self):
        super().setUp()
        with open(self.path("text.txt"), "w") as out:
            out.write(TEXT)

    def imatrix(self, *flags, data="text.txt", model="m.graft"):
        return self.run_graft("imatrix", model, "--data", data, "-o", "im.gguf", *flags)

    def test_sums_are_of_what_matrices_are_multiplied_with(self):
        done = self.imatrix("--context", 32, "--chunks", 3, "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3 chunks of 32 tokens, in", done.stderr)  # the memory is known before
        told = json.loads(done.stdout)
        tokens = letter_text.ids(TEXT)
        self.assertEqual([told[name] for name in ("matrices", "chunks", "context", "tokens", "tokens_left_out")],
                         [14, 3, 32, 96, len(tokens) - 96])
        metadata, tensors = read_gguf(self.path("im.gguf"))
        self.assertEqual(metadata, {"general.type": "imatrix", "imatrix.datasets": ["text.txt"], "imatrix.chunk_count": 3,
                                    "imatrix.chunk_size": 32})
        cli.save_npy(self.path("rows.npy"), tokens[:96], (3, 32), "i")
        norms = {"attn_q": "input_layernorm", "ffn_up": "post_attention_layernorm"}
        values = {f"blk.{i}.{short}": f"model.layers.{i}.{norm}" for i in range(2) for short, norm in norms.items()}
        self.graft("run", "m.graft", "--input", "tokens=rows.npy", "--fetch", ",".join(values.values()), "--out", "out")
        for short, name in values.items():
            numbers, sums = cli.load_npy(self.path(f"out/{name}.npy")), [0.0] * 16
            for i, x in enumerate(numbers):
                sums[i % 16] += x * x
            self.assertEqual(tensors[f"{short}.weight.counts"], [96.0])
            for found, expected in zip(tensors[f"{short}.weight.in_sum2"], sums, strict=True):
                self.assertAlmostEqual(found, expected, delta=1e-4 * expected)
        # Queries, keys and values are of the same numbers, each under its name.
        self.assertEqual(tensors["blk.1.attn_v.weight.in_sum2"], tensors["blk.1.attn_q.weight.in_sum2"])
        self.assertNotIn("token_embd.weight.in_sum2", tensors)

    def test_export_quantizes_by_it(self):
        wide = self.path("wide")
        letter_text.write_model(wide, columns=32, inner=64)
        self.graft("convert", wide, "-o", "w.graft")
        done = self.imatrix("--context", 32, "--head", model="w.graft")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("15 matrices over 192 tokens, 6 chunks of 32", done.stdout)
        told = json.loads(self.graft("export", "w.graft", "-o", "q.gguf", "--dtype", "q4_0", "--imatrix", "im.gguf", "--json"))
        self.assertEqual(["weighted_error" in block for block in told["blocks"]], [True] * 15, told)
        # convert makes the same blocks, and says the same of them, with the model's names.
        flags = ("--quantize", "q4_0", "--imatrix", "im.gguf")
        report = json.loads(self.graft("convert", wide, "-o", "w4.graft", *flags, "--json"))
        errors = lambda blocks: sorted((round(block["error"], 9), round(block["weighted_error"], 9)) for block in blocks)
        self.assertEqual(errors(report["blocks"]), errors(told["blocks"]))
        self.graft("export", "w4.graft", "-o", "w4.gguf")
        with open(self.path("w4.gguf"), "rb") as one, open(self.path("q.gguf"), "rb") as other:
            self.assertEqual(one.read(), other.read())
        self.assertRegex(self.graft("convert", wide, "-o", "w4.graft", *flags, "--errors"),
                         r"model\.layers\.1\.mlp\.down_proj\.weight +q4_0 +[0-9.]+% +[0-9.]+%\n")
        self.assertNotIn("weighted", self.graft("convert", wide, "-o", "w4.graft", *flags[:2], "--errors"))
        # A quantized model has one as well, nearly the same.
        self.graft("convert", wide, "-o", "w8.graft", "--quantize", "q8_0")
        _, plain = read_gguf(self.path("im.gguf"))
        self.assertEqual(self.imatrix("--context", 32, "--head", "--quiet", model="w8.graft").returncode, 0)
        _, blocks = read_gguf(self.path("im.gguf"))
        self.assertEqual(plain.keys(), blocks.keys())
        for name, numbers in plain.items():
            self.assertLess(cli.norm([a - b for a, b in zip(numbers, blocks[name])]), 0.05 * cli.norm(numbers), name)

    def test_several_texts_add_up(self):
        with open(self.path("other.txt"), "w") as out:
            out.write("why so, no. " * 8)
        flags = ("--context", 32, "--quiet")
        sums = []
        for data in (("text.txt",), ("other.txt",), ("text:text.txt", "other.txt")):
            done = self.run_graft("imatrix", "m.graft", *(flag for name in data for flag in ("--data", name)), "-o", "im.gguf", *flags)
            # A slow device says that it compiles.
            self.assertEqual((done.returncode, done.stderr.replace("Compiling shaders ...\n", "")), (0, ""))
            sums.append(read_gguf(self.path("im.gguf")))
        self.assertEqual(sums[2][0]["imatrix.datasets"], ["text.txt", "other.txt"])
        for name, numbers in sums[2][1].items():
            for both, one, other in zip(numbers, sums[0][1][name], sums[1][1][name], strict=True):
                self.assertAlmostEqual(both, one + other, delta=1e-5 * both, msg=name)

    def test_what_is_refused(self):
        ends = ("-o", "im.gguf")
        with open(self.path("short.txt"), "w") as out:
            out.write("abc")
        open(self.path("empty.txt"), "w").close()
        self.fails("imatrix", "m.graft", "--data", "short.txt", *ends, says=("short.txt", "3 tokens", "chunk of 512"))
        self.fails("imatrix", "m.graft", "--data", "empty.txt", *ends, says=("empty.txt", "empty"))
        self.fails("imatrix", "m.graft", "--data", "absent.txt", *ends, says=("absent.txt",))
        self.fails("imatrix", "m.graft", "--data", "text.txt", "--context", 513, *ends, says=("made for 512",))
        self.fails("imatrix", "m.graft", "--data", "text.txt", "--budget", "10KiB", *ends, says=("budget",))
        self.fails("imatrix", self.example(), "--data", "text.txt", *ends, says=("Only causal language models",))
        self.fails("imatrix", "m.graft", "--data", "text.txt", "-o", "m.graft", says=("m.graft",))
        self.fails("imatrix", "m.graft", "--data", "text.txt", "-o", "text.txt", says=("text.txt",))
        self.fails("imatrix", "absent.graft", "--data", "text.txt", *ends, says=("absent.graft",))
        self.refused("imatrix", "m.graft", *ends, names="--data")
        self.refused("imatrix", "m.graft", "--data", "text.txt", names="--output")
        self.refused("imatrix", "m.graft", "--data", "text.txt", *ends, "--context", 0, names="--context")
        self.refused("imatrix", "m.graft", "--data", "text.txt", *ends, "--chunks", 0, names="--chunks")
        self.assertFalse(os.path.exists(self.path("im.gguf")))

    def test_what_convert_refuses(self):
        self.assertEqual(self.imatrix("--context", 32).returncode, 0)
        flags = ("convert", "model", "-o", "x.graft", "--imatrix", "im.gguf")
        self.refused(*flags, names="--imatrix")
        self.refused("convert", "model", "-o", "x.graft", "--errors", names="--errors")
        self.refused(*flags, "--quantize", "q8_0", "--errors", "--json", names="--errors")
        wide = self.path("wide")
        letter_text.write_model(wide, columns=32, inner=64)
        self.fails("convert", wide, *flags[2:], "--quantize", "q8_0", says=("another model", "blk.0.attn_q.weight"))
        with open(self.path("im.gguf"), "wb") as out:
            out.write(b"GGUF")
        self.fails(*flags, "--quantize", "q8_0", says=("importance matrix", "im.gguf"))
        with open(f"{wide}/config.json", "w") as out:
            json.dump({"model_type": "gpt2", "n_embd": 16, "n_head": 4, "n_layer": 1, "vocab_size": 17, "n_positions": 8,
                       "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5}, out)
        self.assertEqual(self.imatrix("--context", 32).returncode, 0)
        self.fails("convert", wide, *flags[2:], "--quantize", "q8_0", says=("lie across",))
        self.assertFalse(os.path.exists(self.path("x.graft")))


if __name__ == "__main__":
    cli.main()

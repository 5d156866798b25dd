"""Results kept in 16 bits, from outside: training follows f32 within a band, and inference gives almost the same.

GRAFT_TEST_STEPS is how many steps a curve has (default 24); GRAFT_TEST_DATA the folder with MNIST and a language model,
for which the generated digits stand in, and nothing, where they are not there.
Usage: precision_test.py GRAFT [-v] [TEST ...]
"""

import json
import os

import cli

STEPS = int(os.environ.get("GRAFT_TEST_STEPS", "24"))
DATA = os.environ.get("GRAFT_TEST_DATA",
                      os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared/data"))
WINDOW = 12  # steps of a mean


def means(losses):
    return [sum(losses[i:i + WINDOW]) / WINDOW for i in range(0, len(losses) - WINDOW + 1, WINDOW)]


class Bytes(cli.CliTest):
    def test_the_device_makes_numbers_of_bytes(self):
        values = [i * 37 % 256 for i in range(2 * 784)]
        # Exact in float32, so that both ways give the same bits.
        cli.save_npy(self.path("floats.npy"), [v / 256 - 0.5 for v in values], (2, 1, 28, 28))
        cli.save_npy(self.path("bytes.npy"), values, (2, 28, 28, 1), "B")
        wanted = self.outputs("mlp.graft", "floats.npy")
        flag = "image:scale=0.00390625,offset=-0.5,layout=nhwc"
        self.assertEqual(self.outputs("mlp.graft", "bytes.npy", ("--bytes", flag)), wanted)
        run = ("run", "mlp.graft", "--out", "out", "--input")
        self.fails(*run, "image=bytes.npy", "--bytes", "image:size=2", says=["size=2"])
        self.fails(*run, "image=bytes.npy", "--bytes", "picture", says=["picture"])
        self.fails(*run, "image=floats.npy", "--bytes", "image", says=["no bytes"])
        cli.save_npy(self.path("large.npy"), [256] * 784, (1, 1, 28, 28), "i")
        self.fails(*run, "image=large.npy", "--bytes", "image", says=["256"])


class LeftOut(cli.CliTest):
    def run_with(self, large, steps=8):
        """Steps of one sample; the first `large` of them overflow f16 in the first layer."""
        numbers = []
        for i in range(steps):
            numbers += [x * (1e7 if i < large else 1) for x in cli.random_floats(784, i + 1)]
        cli.save_npy(self.path("x.npy"), numbers, (steps, 1, 28, 28))
        self.labels([i % 10 for i in range(steps)])
        return ("train", "mlp.graft", "--data", "npy:x.npy,y.npy", "--batch", 1, "--steps", steps, "--no-shuffle", "--quiet",
                "--precision", "f16", "-o", "out.graft")

    def test_a_run_that_learned_next_to_nothing_fails(self):
        with open(self.path("out.graft"), "w") as file:
            file.write("before")
        run = self.run_with(7)
        self.fails(*run, "--checkpoint", "kept", says=["7 of 8 steps were left out", "f16", "out.graft was not written"])
        self.fails(*run, "--checkpoint", "kept", "--resume", says=["7 of 8 steps were left out"])
        with open(self.path("out.graft")) as file:
            self.assertEqual(file.read(), "before")
        self.assertFalse(os.path.exists(self.path("out.graft.config.json")))

    def test_a_run_that_left_out_many_steps_says_so(self):
        done = self.run_graft(*self.run_with(4))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Warning: 4 of 8 steps were left out, since their loss or gradients were not finite in f16.", done.stderr)
        self.graft("info", "out.graft")
        done = self.run_graft(*self.run_with(0))
        self.assertNotIn("left out", done.stderr)


class Curves(cli.CliTest):
    def losses(self, precision, *flags):
        self.graft("train", *flags, "--steps", STEPS, "--seed", 1, "--precision", precision, "--quiet", "--metrics",
                   "metrics.jsonl", "-o", "out.graft")
        rows = self.metrics()
        self.assertEqual(len(rows), STEPS)
        self.assertEqual(rows[-1].get("skipped_steps", 0), 0)
        return [row["loss"] for row in rows]

    def expect_in_band(self, relative, absolute, *flags):
        """Means of WINDOW steps lie within `relative` of those in f32, or within `absolute` where these are small."""
        expected = means(self.losses("f32", *flags))
        self.assertLess(expected[-1], expected[0], "it learns")
        for precision in ("f16", "bf16"):
            for i, (got, wanted) in enumerate(zip(means(self.losses(precision, *flags)), expected, strict=True)):
                self.assertLess(abs(got - wanted), max(relative * wanted, absolute), f"{precision}, window {i}")

    def test_lenet(self):
        self.graft("convert", "--example", "lenet", "-o", "lenet.onnx")
        self.graft("convert", "lenet.onnx", "-o", "lenet.graft")
        mnist = f"{DATA}/img-mnist-idx/train-"
        data = f"idx:{mnist}images-idx3-ubyte.gz,{mnist}labels-idx1-ubyte.gz"
        if not os.path.exists(f"{mnist}images-idx3-ubyte.gz"):
            data = "digits:?count=2048"
        # 16-bit results move single steps by some hundredths once the loss is small: a batch of 16 has few errors left.
        self.expect_in_band(0.05, 0.03, "lenet.graft", "--data", data, "--batch", 16)

    def test_language_model_with_adapters(self):
        source = f"{DATA}/llm-tinystories-656k"
        texts = f"{DATA}/text-lora-wikisql/train.jsonl"
        if not (os.path.exists(source) and os.path.exists(texts)):
            self.skipTest(f"{source} or {texts} is not there.")
        self.graft("convert", source, "-o", "ts.graft")
        # Losses of 3 to 7; bf16 has 8 bits, whose roundings cancel out over a hundred tokens and twelve steps.
        self.expect_in_band(0.005, 0, "ts.graft", "--lora", "r=8,alpha=16", "--data", f"jsonl:{texts}", "--seq", 64,
                            "--batch", 2, "--lr", "2e-3")


class Products(cli.LanguageTest):
    def test_a_device_without_matrix_units_says_that_nothing_is_rounded(self):
        for precision in ("high", "medium"):
            text = self.graft("plan", "mlp.graft", "--bind", "batch=8", "--matmul-precision", precision)
            planned = json.loads(self.graft("plan", "mlp.graft", "--bind", "batch=8", "--matmul-precision", precision,
                                            "--json"))["matmul_precision"]
            self.assertEqual(planned["asked"], precision)
            if planned["rounds"]:
                self.skipTest("The device has matrix units.")
            self.assertIn(f"Products at --matmul-precision {precision} stay in f32", text)
        self.images(4)
        exact = self.outputs("mlp.graft")
        self.graft("run", "mlp.graft", "--input", "image=x.npy", "--out", "out", "--matmul-precision", "medium")
        self.assertEqual(cli.load_npy(self.path("out/logits.npy")), exact)


class Inference(cli.LanguageTest):
    def test_results_are_almost_the_same_in_less_memory(self):
        self.images(4)
        wide = self.outputs("mlp.graft")
        flags = ["--mode", "infer", "--bind", "batch=64", "--json"]
        planned = {}
        for precision in ("f32", "f16", "bf16"):
            self.graft("run", "mlp.graft", "--input", "image=x.npy", "--out", "out", "--precision", precision)
            error = cli.difference(cli.load_npy(self.path("out/logits.npy")), wide)
            # Of 11 and 8 bits, a handful of roundings one behind the other.
            self.assertLess(error, {"f32": 1e-7, "f16": 2e-3, "bf16": 2e-2}[precision])
            self.assertEqual(error > 0, precision != "f32")
            planned[precision] = json.loads(self.graft("plan", "mlp.graft", *flags, "--precision", precision))
        for precision in ("f16", "bf16"):
            rows = planned[precision]["precision"]["ops"]
            self.assertIn(precision, {row["storage"] for row in rows if row["op"] != "weights"})
            weights = {row["storage"]: row["bytes"] for row in rows if row["op"] == "weights"}
            # Two layers of 784 by 128 and 128 by 10; their biases stay as they are.
            self.assertEqual(weights, {precision: 2 * (784 * 128 + 128 * 10), "f32": 4 * (128 + 10)})
        self.fails("run", "mlp.graft", "--input", "image=x.npy", "--out", "out", "--precision", "f8", says=["\"f8\""])

    def test_gradients(self):
        self.images(4)
        self.graft("grad", "mlp.graft", "--input", "image=x.npy", "--of", "logits", "--cotangent", self.cotangent(),
                   "--wrt", "image", "--out", "wide")
        for precision in ("f16", "bf16"):
            for split in ([], ["--micro-batch", 2]):
                self.graft("grad", "mlp.graft", "--input", "image=x.npy", "--of", "logits", "--cotangent", "c.npy",
                           "--wrt", "image", "--out", "out", "--precision", precision, *split)
                error = cli.difference(cli.load_npy(self.path("out/image.npy")),
                                       cli.load_npy(self.path("wide/image.npy")))
                self.assertGreater(error, 0)
                self.assertLess(error, 2e-2)

    def cotangent(self):
        cli.save_npy(self.path("c.npy"), cli.random_floats(40, 5), (4, 10))
        return "c.npy"

    def test_language_models(self):
        with open(self.path("texts.jsonl"), "w") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in ("abbbb", "abbb", "abb", "ab"))
        evaluated, first = {}, {}
        for precision in ("f32", "f16", "bf16"):
            evaluated[precision] = json.loads(self.graft("eval", "tiny.graft", "--data", "jsonl:texts.jsonl", "--seq", 6,
                                                         "--batch", 4, "--json", "--precision", precision))["loss"]
            self.assertAlmostEqual(evaluated[precision], evaluated["f32"], delta=0.05)
            said = self.generated("--prompt", "ab", "--max-tokens", "5", "--precision", precision)
            first[precision] = said["tokens"][0]
        self.assertNotEqual(evaluated["bf16"], evaluated["f32"])
        self.assertEqual(len(set(first.values())), 1, first)


class Kernels(cli.CliTest):
    def test_are_timed_over_what_is_kept_in_16_bits(self):
        for precision, element in (("f32", 4), ("f16", 2), ("bf16", 2)):
            out = json.loads(self.graft("bench", "ops", "--json", "--repeat", 1, "--filter", "NN 256x256x256",
                                        "--filter", "layer_norm", "--precision", precision))
            rows = {row["name"].split()[0]: row for row in out["cases"]}
            self.assertEqual(out["precision"], precision)
            self.assertEqual(rows["matmul"]["bytes"], 3 * 256 * 256 * element)
            self.assertEqual("naive_gflops" in rows["matmul"], precision == "f32")
            # Rows in and out; scale, bias and two statistics of a row stay in f32.
            self.assertEqual(rows["layer_norm"]["bytes"], 2 * 2048 * 1024 * element + (2 * 1024 + 2 * 2048) * 4)


if __name__ == "__main__":
    cli.main()

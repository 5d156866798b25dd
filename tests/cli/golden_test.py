"""Files of an earlier graft stay readable: a store is resumed, an adapter and a delta are applied, a quantized model runs.

tests/golden/kept holds them. They are made again only on purpose, where a format has a new version:
    GRAFT_REGENERATE_GOLDEN=1 python3 tests/cli/golden_test.py GRAFT
"""

import filecmp
import json
import os
import shutil
import unittest

import cli
from small_network import field, node, tensor, value

KEPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/kept")
REGENERATE = os.environ.get("GRAFT_REGENERATE_GOLDEN") == "1"
TRAIN = ("train", "base.graft", "--data", "npy:x.npy,y.npy", "--batch", 4, "--no-shuffle", "--seed", 3, "--lr", 0.01, "--quiet")
RUN = (*TRAIN, "--checkpoint", "store", "--checkpoint-every", 2)
SERVER = ("--server", "fedadam", "--server-rate", 0.01, "--server-state", "server-1.state")


def write_network(path):
    """x [batch, 32] to logits [batch, 3]; rows of 32, which are whole blocks."""
    def random(name, shape, seed):
        return tensor(name, shape, [0.3 * v for v in cli.random_floats(shape[0] * shape[1] if len(shape) > 1 else shape[0], seed)])
    nodes = [node("Gemm", ["x", "a.w", "a.b"], "h"), node("Relu", ["h"], "r"), node("Gemm", ["r", "b.w", "b.b"], "logits")]
    weights = [random("a.w", (32, 32), 1), random("a.b", (32,), 2), random("b.w", (32, 3), 3), random("b.b", (3,), 4)]
    graph = b"".join(nodes) + field(2, "kept") + b"".join(weights) + value(11, "x", "batch", 32) + value(12, "logits", "batch", 3)
    with open(path, "wb") as file:
        file.write(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13)))


class Golden(cli.CliTest):
    def setUp(self):
        super().setUp()
        cli.save_npy(self.path("x.npy"), cli.random_floats(12 * 32, 9), (12, 32))
        cli.save_npy(self.path("t.npy"), [1, 2, 3, 4], (1, 4), "i")
        self.labels([i % 3 for i in range(12)])
        if os.path.isdir(KEPT):
            shutil.copytree(KEPT, self.folder, dirs_exist_ok=True)

    @unittest.skipUnless(REGENERATE, "only on purpose")
    def test_regenerate(self):
        for name in os.listdir(KEPT) if os.path.isdir(KEPT) else []:
            path = self.path(name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
        write_network(self.path("net.onnx"))
        self.graft("convert", "net.onnx", "-o", "base.graft")
        self.graft(*RUN, "--steps", 5)
        shutil.copy(f"{cli.SEEDS}/gguf/blocks", self.path("blocks.gguf"))
        self.graft("convert", "blocks.gguf", "-o", "quantized-1.graft")
        self.graft(*TRAIN, "--lora", "r=2", "--steps", 3, "-o", "adapter-1.graft")
        self.graft(*TRAIN, "--steps", 3, "-o", "new.graft")
        self.graft("delta", "make", "base.graft", "new.graft", "--codec", "int8", "--samples", 12, "-o", "delta-1.delta")
        self.graft("delta", "apply", "base.graft", "delta-1.delta", *SERVER, "-o", "next.graft")
        shutil.copy(self.path("server-1.state"), self.path("state"))
        expected = {"logits": {name: self.logits(name) for name in ("base.graft", "quantized-1.graft")}}
        self.graft("merge", "base.graft", "--adapter", "adapter-1.graft", "-o", "merged.graft")
        expected["logits"]["merged.graft"] = self.logits("merged.graft")
        self.graft("delta", "apply", "base.graft", "delta-1.delta", "-o", "applied.graft")
        expected["logits"]["applied.graft"] = self.logits("applied.graft")
        self.graft("delta", "apply", "base.graft", "delta-1.delta", *SERVER, "-o", "second.graft")
        expected["logits"]["second.graft"] = self.logits("second.graft")
        shutil.copy(self.path("state"), self.path("server-1.state"))
        shutil.copytree(self.path("store"), self.path("store-1"))
        self.graft(*RUN, "--resume", "--steps", 8, "-o", "resumed.graft")
        expected["logits"]["resumed.graft"] = self.logits("resumed.graft")
        shutil.rmtree(KEPT, True)
        os.makedirs(KEPT)
        for name in ("base.graft", "quantized-1.graft", "adapter-1.graft", "delta-1.delta", "server-1.state"):
            shutil.copy(self.path(name), KEPT)
        shutil.copytree(self.path("store-1"), os.path.join(KEPT, "store-1"))
        with open(os.path.join(KEPT, "expected.json"), "w") as file:
            json.dump(expected, file, indent=1)

    def logits(self, model):
        of_text = model.startswith("quantized")
        self.graft("run", model, "--input", "tokens=t.npy" if of_text else "x=x.npy", "--out", "out")
        return cli.load_npy(self.path("out/logits.npy"), (1, 4, 6) if of_text else (12, 3))

    def gives(self, model, bound=1e-5):
        """What it gave when the files were made, but for how devices round."""
        with open(self.path("expected.json")) as file:
            expected = json.load(file)["logits"]
        self.assertLess(cli.difference(self.logits(model), expected[model]), bound)
        others = [other for name, other in expected.items() if name != model and len(other) == len(expected[model])]
        self.assertGreater(min((cli.difference(expected[model], other) for other in others), default=1), 2 * bound,
                           "no other file gives this")

    @unittest.skipIf(REGENERATE, "they are being made")
    def test_models(self):
        for name in ("base.graft", "quantized-1.graft"):
            self.graft("verify", name, "--deep")
            self.gives(name, 1e-4)

    @unittest.skipIf(REGENERATE, "they are being made")
    def test_the_adapter(self):
        told = json.loads(self.graft("info", "adapter-1.graft", "--json"))
        self.assertEqual(told["metadata"]["adapter.rank"], "2")
        self.graft("merge", "base.graft", "--adapter", "adapter-1.graft", "-o", "merged.graft")
        self.gives("merged.graft")

    @unittest.skipIf(REGENERATE, "they are being made")
    def test_the_delta_and_the_server(self):
        self.graft("delta", "apply", "base.graft", "delta-1.delta", "-o", "applied.graft")
        self.gives("applied.graft")
        self.graft("delta", "apply", "base.graft", "delta-1.delta", *SERVER, "-o", "second.graft")
        self.gives("second.graft")

    @unittest.skipIf(REGENERATE, "they are being made")
    def test_the_store(self):
        shutil.copytree(self.path("store-1"), self.path("store"))
        self.graft("checkpoint", "verify", "store-1")
        self.assertEqual(filecmp.dircmp(self.path("store-1"), self.path("store")).diff_files, [])
        rows = json.loads(self.graft("checkpoint", "list", "store", "--json"))["snapshots"]
        self.assertEqual([row["step"] for row in rows][-1], 5)
        self.graft(*RUN, "--resume", "--steps", 8, "-o", "resumed.graft")
        self.gives("resumed.graft")


if __name__ == "__main__":
    cli.main()

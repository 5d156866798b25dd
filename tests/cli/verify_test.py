"""graft verify: every op of a model, by itself and fused with others, against the reference."""

import json

import cli
from cli import CliTest

try:
    from onnx import TensorProto, helper, save
except ImportError:
    save = None


class Verify(CliTest):
    def mlp(self):
        self.graft("convert", "--example", "mlp", "-o", "mlp.onnx")
        self.graft("convert", "mlp.onnx", "-o", "mlp.graft")

    def rows(self, model, *flags):
        return json.loads(self.graft("verify", model, "--json", *flags))["nodes"]

    def test_what_differs_is_named(self):
        self.mlp()
        self.fails("verify", "mlp.graft", "--tolerance", "1e-12", says=("nodes differ from the reference on this device",))

    def test_ops_are_verified_alone_and_fused(self):
        if save is None:
            self.skipTest("no package onnx")
        heads, tokens, width = 2, 5, 4
        shape = ["batch", heads, tokens, width]
        value = helper.make_tensor_value_info
        graph = helper.make_graph(
            [helper.make_node("MatMul", ["q", "k"], ["scores"]), helper.make_node("Add", ["scores", "mask"], ["masked"]),
             helper.make_node("Softmax", ["masked"], ["weights"], axis=-1), helper.make_node("MatMul", ["weights", "v"], ["seen"]),
             helper.make_node("Exp", ["seen"], ["e"]), helper.make_node("Add", ["e", "q"], ["y"])],
            "attention",
            [value("q", TensorProto.FLOAT, shape), value("k", TensorProto.FLOAT, ["batch", heads, width, tokens]),
             value("v", TensorProto.FLOAT, shape), value("mask", TensorProto.FLOAT, ["batch", 1, 1, tokens])],
            [value("y", TensorProto.FLOAT, shape)])
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), self.path("a.onnx"))
        self.graft("convert", "a.onnx", "-o", "a.graft")
        rows = self.rows("a.graft", "--bind", "batch=2")
        self.assertTrue(all(row["passed"] for row in rows), rows)
        self.assertTrue({"attention", "exp", "add", "fused_elementwise"} <= {row["op"] for row in rows}, rows)
        # Attention has no gradient by its mask, which leaves those of its other inputs; fused ops come after differentiation.
        for row in rows:
            self.assertEqual(row["gradient"] < 0, row["op"].startswith("fused_"), row)


if __name__ == "__main__":
    cli.main()

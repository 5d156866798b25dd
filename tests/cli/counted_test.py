"""Outputs that are as long as the data decide: what `graft run` writes of them, what `graft info` says, and that no loss is taken.

Usage: counted_test.py GRAFT [-v] [TEST ...]      (a Python with numpy and onnx)
"""

import json
import sys

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import cli


def network(path):
    """Rows of x times w that are not negative in column 0, where they stand, and how they are without them."""
    constant = {"w": np.array([[1, 2], [3, -4]], np.float32), "zero": np.array(0, np.float32), "first": np.array(0, np.int64),
                "axis": np.array([0], np.int64)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]),
             helper.make_node("Gather", ["y", "first"], ["column"], axis=1),
             helper.make_node("GreaterOrEqual", ["column", "zero"], ["good"]),
             helper.make_node("NonZero", ["good"], ["places"]),
             helper.make_node("Squeeze", ["places", "axis"], ["place"]),
             helper.make_node("Gather", ["y", "place"], ["rows"], axis=0)]
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
                              [helper.make_tensor_value_info(name, kind, None) for name, kind in
                               (("places", TensorProto.INT64), ("rows", TensorProto.FLOAT), ("y", TensorProto.FLOAT))],
                              [numpy_helper.from_array(value, name) for name, value in constant.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 14)], ir_version=8), path)


class CountedTest(cli.CliTest):
    def setUp(self):
        super().setUp()
        network(self.path("net.onnx"))
        self.report = self.graft("convert", "net.onnx", "-o", "net.graft")

    def test_what_is_there_is_written(self):
        w = np.array([[1, 2], [3, -4]], np.float32)
        some = np.array([[1, 1], [-2, 0], [0, 5], [-9, 1], [3, -1]], np.float32)
        for x in (some, -np.abs(some) - 1, np.abs(some), some[1:2]):
            np.save(self.path("x.npy"), x)
            self.graft("run", "net.graft", "--input", "x=x.npy", "--out", "out")
            y = x @ w
            places, rows = np.load(self.path("out/places.npy")), np.load(self.path("out/rows.npy"))
            self.assertEqual(places.dtype, np.int64)
            np.testing.assert_array_equal(places, np.nonzero(y[:, 0] >= 0))
            np.testing.assert_array_equal(rows, y[y[:, 0] >= 0])
            np.testing.assert_array_equal(np.load(self.path("out/places.count.npy")), len(rows))

    def test_info_and_the_report_say_how_long_it_may_be(self):
        self.assertIn("is as long as the data decide", self.report)
        text = self.graft("info", "net.graft")
        self.assertRegex(text, r"output places +i32\[1, n\] +\(axis 1: up to n, as many as \"places.count\" says\)")
        self.assertRegex(text, r"output rows +f32\[n, 2\] +\(axis 0: up to n, as many as \"places.count\" says\)")
        metadata = json.loads(self.graft("info", "net.graft", "--json"))["metadata"]
        self.assertEqual(metadata["outputs.counted"], "places\t1\tplaces.count\nrows\t0\tplaces.count\n")

    def test_nothing_is_trained_on_rows_that_are_not_there(self):
        np.save(self.path("x.npy"), np.ones((4, 2), np.float32))
        np.save(self.path("t.npy"), np.ones((4, 2), np.float32))
        self.fails("train", "net.graft", "--data", "npy:x.npy,t.npy", "--loss", "mse:rows", "--steps", 1, "--batch", 2,
                   says=["\"rows\" is as long as the data decide"])
        self.fails("eval", "net.graft", "--data", "npy:x.npy,t.npy", "--loss", "mse:rows", says=["\"rows\" is as long"])
        np.save(self.path("c.npy"), np.ones((4, 2), np.float32))
        self.fails("grad", "net.graft", "--input", "x=x.npy", "--of", "rows", "--cotangent", "c.npy", "--wrt", "w", "--out", "g",
                   says=["\"rows\" is as long"])
        # What was there before rows were chosen may be trained.
        self.graft("train", "net.graft", "--data", "npy:x.npy,t.npy", "--loss", "mse:y", "--steps", 1, "--batch", 2, "--quiet")


if __name__ == "__main__":
    cli.main()

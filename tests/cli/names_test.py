"""Names of an ONNX file on the command line: separators within them, outputs that would share a file, inputs without elements, dimensions
that there are not, and int64 numbers that do not fit 32 bits.

Usage: names_test.py GRAFT [-v] [TEST ...]      (a Python with numpy and onnx)
"""

import sys

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import cli


def save(path, nodes, inputs, outputs, constants=()):
    value = lambda name, kind, shape: helper.make_tensor_value_info(name, kind, shape)
    graph = helper.make_graph(nodes, "net", [value(*i) for i in inputs], [value(*o) for o in outputs],
                              [numpy_helper.from_array(array, name) for name, array in constants])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class NamesTest(cli.CliTest):
    def convert(self, *network, flags=()):
        save(self.path("net.onnx"), *network)
        self.graft("convert", "net.onnx", "-o", "net.graft", *flags)

    def save(self, name, array):
        np.save(self.path(name), array)
        return name

    def test_separators_are_part_of_a_name_behind_a_backslash(self):
        self.convert([helper.make_node("Mul", ["a,b", "c=d"], ["p"]), helper.make_node("ReduceSum", ["p"], ["x=y,z"], keepdims=0)],
                     [("a,b", TensorProto.FLOAT, ["n,m", 2]), ("c=d", TensorProto.FLOAT, [2])], [("x=y,z", TensorProto.FLOAT, [])])
        x, w = np.array([[1, 2], [3, 4]], np.float32), np.array([5, 7], np.float32)
        given = ("--input", "a\\,b=" + self.save("x.npy", x), "--input", "c\\=d=" + self.save("w.npy", w))
        self.graft("run", "net.graft", *given, "--fetch", "p", "--out", "out")
        self.assertEqual(np.load(self.path("out/x=y,z.npy")), (x * w).sum())
        np.testing.assert_array_equal(np.load(self.path("out/p.npy")), x * w)
        self.graft("grad", "net.graft", *given, "--of", "x\\=y\\,z", "--wrt", "a\\,b,c\\=d", "--out", "grads")
        np.testing.assert_array_equal(np.load(self.path("grads/a,b.npy")), np.broadcast_to(w, x.shape))
        np.testing.assert_array_equal(np.load(self.path("grads/c=d.npy")), x.sum(0))
        self.fails("run", "net.graft", *given[:2], "--out", "out", says=["--input c\\=d=FILE.npy"])

    def test_outputs_that_would_share_a_file_have_files_of_their_own(self):
        self.convert([helper.make_node("Neg", ["x"], ["y:0"]), helper.make_node("Abs", ["x"], ["y_0"])],
                     [("x", TensorProto.FLOAT, [2])], [("y:0", TensorProto.FLOAT, [2]), ("y_0", TensorProto.FLOAT, [2])])
        said = self.graft("run", "net.graft", "--input", "x=" + self.save("x.npy", np.array([1, -2], np.float32)), "--out", "out")
        np.testing.assert_array_equal(np.load(self.path("out/y_0.npy")), [1, 2])
        np.testing.assert_array_equal(np.load(self.path("out/y_0~2.npy")), [-1, 2])
        self.assertIn('y_0~2.npy  float32[2]  of "y:0"', said.replace("f32", "float32"))

    def test_an_input_without_elements_is_given_and_read(self):
        self.convert([helper.make_node("Concat", ["e", "x"], ["y"], axis=0), helper.make_node("ReduceSum", ["e"], ["s"], keepdims=0),
                      helper.make_node("Identity", ["e"], ["same"])],
                     [("e", TensorProto.FLOAT, [0, 2]), ("x", TensorProto.FLOAT, [1, 2])],
                     [("y", TensorProto.FLOAT, [1, 2]), ("s", TensorProto.FLOAT, []), ("same", TensorProto.FLOAT, [0, 2])])
        x = np.array([[1, 2]], np.float32)
        self.graft("run", "net.graft", "--input", "e=" + self.save("e.npy", np.zeros((0, 2), np.float32)), "--input",
                   "x=" + self.save("x.npy", x), "--out", "out")
        np.testing.assert_array_equal(np.load(self.path("out/y.npy")), x)
        self.assertEqual(np.load(self.path("out/s.npy")), 0)
        self.assertEqual(np.load(self.path("out/same.npy")).shape, (0, 2))

    def test_sizes_and_axes_that_are_inputs_become_constants(self):
        nodes = [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("ReduceSum", ["r", "axes"], ["y"], keepdims=0)]
        network = (nodes, [("x", TensorProto.FLOAT, [2, 3]), ("shape", TensorProto.INT64, [2]), ("axes", TensorProto.INT64, [1])],
                   [("y", TensorProto.FLOAT, None)])
        save(self.path("net.onnx"), *network)
        self.fails("convert", "net.onnx", "-o", "net.graft", says=["\"shape\"", "--constant 'shape=FILE.npy'"])
        self.convert(*network, flags=["--constant", "shape=" + self.save("shape.npy", np.array([3, 2])), "--constant",
                                      "axes=" + self.save("axes.npy", np.array([0]))])
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        self.graft("run", "net.graft", "--input", "x=" + self.save("x.npy", x), "--out", "out")
        np.testing.assert_array_equal(np.load(self.path("out/y.npy")), x.reshape(3, 2).sum(0))

    def test_only_dimensions_that_there_are_are_bound(self):
        network = ([helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, ["rows", 2])], [("y", TensorProto.FLOAT, None)])
        self.convert(*network, flags=["--bind", "rows=3"])
        self.fails("convert", "net.onnx", "-o", "net.graft", "--bind", "row=3", says=["\"row\"", "rows"])

    def test_products_beyond_32_bits_are_refused(self):
        self.convert([helper.make_node("Mul", ["x", "z"], ["y"])], [(n, TensorProto.INT64, [2]) for n in "xz"], [("y", TensorProto.INT64, [2])])
        given = lambda x, z: ("--input", "x=" + self.save("x.npy", np.array(x)), "--input", "z=" + self.save("z.npy", np.array(z)), "--out", "out")
        self.graft("run", "net.graft", *given([3, -4], [5, 46340]))
        np.testing.assert_array_equal(np.load(self.path("out/y.npy")), [15, -4 * 46340])
        self.fails("run", "net.graft", *given([100000, 1], [100000, 1]), says=["mul", "int64", "2147483647"])

    def test_casts_beyond_32_bits_are_refused(self):
        nodes = [helper.make_node("Cast", ["x"], ["whole"], to=TensorProto.INT64), helper.make_node("Reshape", ["whole", "shape"], ["y"]),
                 helper.make_node("Cast", ["x"], ["narrow"], to=TensorProto.INT32)]
        self.convert(nodes, [("x", TensorProto.FLOAT, [2])], [("y", TensorProto.INT64, None), ("narrow", TensorProto.INT32, None)],
                     [("shape", np.array([2, 1]))])
        given = lambda *x: ("--input", "x=" + self.save("x.npy", np.array(x, np.float32)), "--out", "out")
        self.graft("run", "net.graft", *given(-2.9, 2147483520))  # the largest float of 32 bits below 2^31
        np.testing.assert_array_equal(np.load(self.path("out/y.npy")), [[-2], [2147483520]])
        for far in (3e9, -3e9, 1e20):
            self.fails("run", "net.graft", *given(1, far), says=["\"y\"", "element 1", "2147483647" if far > 0 else "-2147483648"])

    def test_a_label_that_is_no_class_is_no_loss_of_zero(self):
        for op in ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"):
            for ignored in ({}, {"ignore_index": -7}):
                self.convert([helper.make_node("Sub", ["label", "one"], ["l"]), helper.make_node(op, ["x", "l"], ["y"], **ignored)],
                             [("x", TensorProto.FLOAT, [2, 2]), ("label", TensorProto.INT64, [2])], [("y", TensorProto.FLOAT, None)],
                             [("one", np.array(1))])
                x = np.log(np.array([[0.25, 0.75], [0.5, 0.5]], np.float32))
                for label in (2, -1, -100, -7):
                    given = ("--input", "x=" + self.save("x.npy", x), "--input", "label=" + self.save("l.npy", np.array([1, label + 1])), "--out", "out")
                    self.graft("run", "net.graft", *given, "--allow-non-finite")
                    expected = -x[0, 0] if ignored and label == -7 else np.nan
                    np.testing.assert_allclose(np.load(self.path("out/y.npy")), expected, rtol=1e-5, err_msg=f"{op} {ignored} {label}")

    def test_not_finite_inputs_name_the_flag(self):
        self.convert([helper.make_node("Neg", ["x"], ["y"])], [("x", TensorProto.FLOAT, [2])], [("y", TensorProto.FLOAT, [2])])
        given = ("--input", "x=" + self.save("x.npy", np.array([1, np.nan], np.float32)), "--out", "out")
        self.fails("run", "net.graft", *given, says=["nan", "--allow-non-finite"])
        self.graft("run", "net.graft", *given, "--allow-non-finite")


if __name__ == "__main__":
    cli.main()

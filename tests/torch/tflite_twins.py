"""A network like MobileNetV2 as TensorFlow Lite and as ONNX has it, with the same weights: floats, and integers of 8 bits with a
scale for each channel, beside the ONNX file's QuantizeLinear and DequantizeLinear.

Usage: tflite_twins.py GRAFT     (GRAFT: the command line tool; run with a Python that has numpy and onnx, flatc installed)

Both files are converted and run, at the size that they were written with and, where height and width are open, at others. Where
Debian's python3-pyarmnn is installed, Arm NN runs the TFLite files too. Exit status: 0 all agree, 1 some do not, 77 something is
not installed.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import torch  # noqa: F401  (parity.py wants it)
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import parity
from parity import Report, graft

SCHEMA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../schema/tflite.fbs")
# f32 on both sides, other orders of summation.
FLOAT_TOLERANCE = 1e-5
# Both round each value to the same grid, whose ties f32 sums in another order tell apart: a step of a hidden value is far less
# than a step of the output behind some hundred of them, so that the outputs are one step apart at most.
QUANTA = 1.001
SIZE, CLASSES = 32, 10


class Twins:
    """Writes both files at once, layer by layer, and computes in numpy what sets the scales."""

    def __init__(self, quantized, open_sizes):
        self.quantized, self.open = quantized, open_sizes
        self.rng = np.random.default_rng(11)
        self.tensors, self.buffers, self.operators, self.codes = [], [{}], [], []
        self.nodes, self.initializers = [], []
        self.scales, self.size = {}, SIZE

    # TFLite's side: numbers of tensors; ONNX's: names. A layer's value goes by (number, name).

    def tensor(self, name, shape, kind, scale=None, zero=None, data=None, axis=0, signature=None):
        entry = {"shape": list(shape), "type": kind, "name": name, "buffer": 0}
        if signature:
            entry["shape_signature"] = signature
        if scale is not None:
            entry["quantization"] = {"scale": np.atleast_1d(scale).astype(float).tolist(),
                                     "zero_point": np.atleast_1d(zero).astype(int).tolist(), "quantized_dimension": axis}
        if data is not None:
            entry["buffer"] = len(self.buffers)
            self.buffers.append({"data": list(np.ascontiguousarray(data).tobytes())})
        self.tensors.append(entry)
        return len(self.tensors) - 1

    def operator(self, code, inputs, output, options=None, **fields):
        if code not in self.codes:
            self.codes.append(code)
        entry = {"opcode_index": self.codes.index(code), "inputs": inputs, "outputs": [output]}
        if options:
            entry.update(builtin_options_type=options, builtin_options=fields)
        self.operators.append(entry)

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], f"{output}_{op}", **attributes))
        return output

    def activation(self, name, channels, low, high, images=True):
        """A value of both files, quantized in ONNX by two nodes: its number and its name."""
        sizes = [self.size, self.size] if images else []
        shape = [1, *sizes, channels]
        signature = [-1, *([-1] * len(sizes) if self.open else sizes), channels]
        if not self.quantized:
            return self.tensor(name, shape, "FLOAT32", signature=signature), name
        scale = np.float32((high - low) / 255)
        zero = int(np.clip(np.rint(-low / scale) - 128, -128, 127))
        self.scales[name] = scale
        number = self.tensor(name, shape, "INT8", scale, zero, signature=signature)
        by = [self.constant(f"{name}_scale", scale), self.constant(f"{name}_zero", np.int8(zero))]
        self.node("QuantizeLinear", [name, *by], f"{name}_q")
        return number, self.node("DequantizeLinear", [f"{name}_q", *by], f"{name}_dq")

    def weights(self, name, array, bias, x, axis, to_onnx):
        """array in TFLite's order of axes, channels of the output along `axis`; to_onnx: the order that ONNX wants."""
        if not self.quantized:
            w = self.tensor(name, array.shape, "FLOAT32", data=array.astype(np.float32))
            b = self.tensor(f"{name}.bias", bias.shape, "FLOAT32", data=bias.astype(np.float32))
            return (w, b), (self.constant(name, to_onnx(array.astype(np.float32))),
                            self.constant(f"{name}.bias", bias.astype(np.float32)))
        other = tuple(i for i in range(array.ndim) if i != axis)
        scale = (np.abs(array).max(axis=other) / 127).astype(np.float32)
        if array.ndim == 2:  # matrices have one scale in such files
            scale = scale.max(keepdims=True)
        wide = scale.reshape([-1 if i == axis else 1 for i in range(array.ndim)])
        q = np.clip(np.rint(array / wide), -127, 127).astype(np.int8)
        bias_scale = (scale * self.scales[x]).astype(np.float32)
        q_bias = np.rint(bias / bias_scale).astype(np.int32)
        zeros = np.zeros(len(scale), np.int64)  # one, or one for each channel
        w = self.tensor(name, q.shape, "INT8", scale, zeros, q, axis)
        b = self.tensor(f"{name}.bias", q_bias.shape, "INT32", bias_scale, zeros, q_bias)
        names = []
        for part, value, by in ((name, to_onnx(q), scale), (f"{name}.bias", q_bias, bias_scale)):
            by = self.constant(f"{part}_scale", by if len(by) > 1 else by[0])
            names.append(self.node("DequantizeLinear", [self.constant(part, value), by], f"{part}_dq", axis=0))
        return (w, b), tuple(names)

    def conv(self, name, x, channels, to, kernel, stride=1, depthwise=False, clip=True):
        number, source = x
        fan = kernel * kernel * (1 if depthwise else channels)
        shape = (1, kernel, kernel, channels) if depthwise else (to, kernel, kernel, channels)
        array, bias = self.rng.normal(size=shape) * np.sqrt(2 / fan), self.rng.normal(size=to) * 0.1
        order = (3, 0, 1, 2) if depthwise else (0, 3, 1, 2)
        (w, b), (w_name, b_name) = self.weights(f"{name}.weight", array, bias, self.name_of(x), 3 if depthwise else 0,
                                                lambda a: np.ascontiguousarray(a.transpose(order)))
        self.node("Conv", [source, w_name, b_name], f"{name}_sum" if clip else name, auto_pad="SAME_UPPER",
                  kernel_shape=[kernel, kernel], strides=[stride, stride], group=channels if depthwise else 1)
        if clip:
            limits = [self.constant(f"{name}_low", np.float32(0)), self.constant(f"{name}_high", np.float32(6))]
            self.node("Clip", [f"{name}_sum", *limits], name)
        self.size = -(-self.size // stride)
        out = self.activation(name, to, 0 if clip else -6, 6)
        fields = {"padding": "SAME", "stride_w": stride, "stride_h": stride, "activation": "RELU6" if clip else "NONE"}
        if depthwise:
            self.operator("DEPTHWISE_CONV_2D", [number, w, b], out[0], "DepthwiseConv2DOptions", depth_multiplier=1, **fields)
        else:
            self.operator("CONV_2D", [number, w, b], out[0], "Conv2DOptions", **fields)
        return out

    def name_of(self, x):
        return x[1][:-3] if self.quantized else x[1]

    def block(self, name, x, channels, to, stride):
        y = self.conv(f"{name}.expand", x, channels, 4 * channels, 1)
        y = self.conv(f"{name}.depthwise", y, 4 * channels, 4 * channels, 3, stride, depthwise=True)
        y = self.conv(f"{name}.project", y, 4 * channels, to, 1, clip=False)
        if stride != 1 or channels != to:
            return y
        self.node("Add", [x[1], y[1]], f"{name}.sum")
        out = self.activation(f"{name}.sum", to, -8, 8)
        self.operator("ADD", [x[0], y[0]], out[0], "AddOptions", activation="NONE")
        return out

    def head(self, x, channels):
        self.node("ReduceMean", [x[1]], "pooled", axes=[2, 3], keepdims=0)
        pooled = self.activation("pooled", channels, 0, 4, images=False)
        axes = self.tensor("axes", [2], "INT32", data=np.int32([1, 2]))
        self.operator("MEAN", [x[0], axes], pooled[0], "ReducerOptions", keep_dims=False)
        array, bias = self.rng.normal(size=(CLASSES, channels)) * 0.3, self.rng.normal(size=CLASSES) * 0.1
        (w, b), names = self.weights("classifier.weight", array, bias, "pooled", 0, lambda a: a)
        self.node("Gemm", [pooled[1], *names], "scores", transB=1)
        scores = self.activation("scores", CLASSES, -5, 5, images=False)
        self.operator("FULLY_CONNECTED", [pooled[0], w, b], scores[0], "FullyConnectedOptions", activation="NONE")
        return scores

    def write(self, folder):
        x = self.activation("image", 3, -2, 2)
        y = self.conv("stem", x, 3, 8, 3, 2)
        y = self.block("block1", y, 8, 8, 1)
        y = self.block("block2", y, 8, 12, 2)
        y = self.block("block3", y, 12, 12, 1)
        y = self.conv("last", y, 12, 24, 1)
        scores = self.head(y, 24)
        model = {"version": 3, "operator_codes": [{"builtin_code": c, "deprecated_builtin_code": CODES[c]} for c in self.codes],
                 "subgraphs": [{"tensors": self.tensors, "inputs": [x[0]], "outputs": [scores[0]], "operators": self.operators}],
                 "buffers": self.buffers}
        with open(f"{folder}/m.json", "w", encoding="utf-8") as out:
            json.dump(model, out)
        subprocess.run(["flatc", "-b", "-o", folder, SCHEMA, f"{folder}/m.json"], check=True, capture_output=True)
        sizes = ["height", "width"] if self.open else [SIZE, SIZE]
        # The last activation's value is the output: scores, or what they are on the grid.
        graph = helper.make_graph(
            self.nodes, "twin", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 3, *sizes])],
            [helper.make_tensor_value_info(scores[1], TensorProto.FLOAT, ["batch", CLASSES])], self.initializers)
        file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
        file.ir_version = 8
        onnx.checker.check_model(file)
        onnx.save(file, f"{folder}/m.onnx")
        return scores[1]


# What a reader of old takes for the operator's code.
CODES = {"ADD": 0, "CONV_2D": 3, "DEPTHWISE_CONV_2D": 4, "FULLY_CONNECTED": 9, "MEAN": 40}


def run(folder, model, image, output):
    np.save(f"{folder}/image.npy", image)
    graft("run", f"{folder}/{model}", "--input", f"image={folder}/image.npy", "--out", f"{folder}/out")
    return np.load(f"{folder}/out/{output}.npy")


def arm_nn(path, image):
    """What Arm NN's reference backend makes of a TFLite file, as floats; None where it is not installed."""
    try:
        import contextlib
        import io

        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            import pyarmnn as ann
    except ImportError:
        return None
    parser = ann.ITfLiteParser()
    network = parser.CreateNetworkFromBinaryFile(path)
    options = ann.CreationOptions()
    runtime = ann.IRuntime(options)
    optimized, _ = ann.Optimize(network, [ann.BackendId("CpuRef")], runtime.GetDeviceSpec(), ann.OptimizerOptions())
    identifier, _ = runtime.LoadNetwork(optimized)
    binding_in = parser.GetNetworkInputBindingInfo(0, parser.GetSubgraphInputTensorNames(0)[0])
    binding_out = parser.GetNetworkOutputBindingInfo(0, parser.GetSubgraphOutputTensorNames(0)[0])
    info_in, info_out = binding_in[1], binding_out[1]
    if info_in.IsQuantized():
        image = np.clip(np.rint(image / np.float32(info_in.GetQuantizationScale())) + info_in.GetQuantizationOffset(), -128, 127)
        image = image.astype(np.int8)
    outputs = ann.make_output_tensors([binding_out])
    runtime.EnqueueWorkload(identifier, ann.make_input_tensors([binding_in], [image]), outputs)
    result = ann.workload_tensors_to_ndarray(outputs)[0].astype(np.float32)
    if info_out.IsQuantized():
        result = (result - info_out.GetQuantizationOffset()) * np.float32(info_out.GetQuantizationScale())
    return result


def check(report, name, quantized, open_sizes, flags, unit):
    """unit: what differences are counted in; 0 for the norm of what is expected."""
    images = np.random.default_rng(5).normal(size=(3, SIZE, SIZE, 3)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        twins = Twins(quantized, open_sizes)
        output = twins.write(folder)
        graft("convert", f"{folder}/m.tflite", *flags, "-o", f"{folder}/tflite.graft")
        graft("convert", f"{folder}/m.onnx", "-o", f"{folder}/onnx.graft")

        def off(actual, expected):
            if actual.shape != expected.shape:
                raise RuntimeError(f"{name}: an output has the shape {actual.shape} instead of {expected.shape}")
            if unit == 0:
                return float(np.abs(actual - expected).max() / np.abs(expected).max())
            return float(np.abs(actual - expected).max() / twins.scales["scores"])

        limit = unit or FLOAT_TOLERANCE
        for height, width in ((SIZE, SIZE), (21, 14), (19, 32)) if open_sizes else ((SIZE, SIZE),):
            part = images[:, :height, :width]
            mine = run(folder, "tflite.graft", part, "scores")
            twin = run(folder, "onnx.graft", np.ascontiguousarray(part.transpose(0, 3, 1, 2)), output)
            report.check(name, f"TFLite and ONNX at {height} x {width}", off(mine, twin), limit)
            report.check(name, "the outputs differ among pictures", float(np.abs(twin - twin[:1]).max() < 1e-2), 0)
        if open_sizes:
            return
        wanted = arm_nn(f"{folder}/m.tflite", images[:1])
        if wanted is not None:
            mine = run(folder, "tflite.graft", images[:1], "scores")
            # Its integers are scaled by fixed-point numbers, so that ties fall otherwise.
            report.check(name, "Arm NN's", off(mine, wanted), 2 * unit or FLOAT_TOLERANCE)


def main():
    if not shutil.which("flatc"):
        print("skipped: flatc is not installed")
        return 77
    parity.GRAFT = os.path.abspath(sys.argv[1])
    report = Report()
    check(report, "float", False, False, [], 0)
    check(report, "float, open sizes", False, True, [], 0)
    check(report, "int8", True, False, ["--fake-quantize"], QUANTA)
    check(report, "int8, open sizes", True, True, ["--fake-quantize"], QUANTA)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())

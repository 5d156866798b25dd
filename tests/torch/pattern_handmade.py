"""Spellings that PyTorch 1.13 does not write: TensorFlow's (as tf2onnx has them) and single nodes of later opsets, built
node by node, with what they mean in numpy. Attention's nodes are in pattern_nodes.py. See patterns.py."""

import math

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from pattern import Handmade

BATCH, TOKENS, HEADS, HEAD = 2, 5, 3, 4
WIDTH = HEADS * HEAD


KINDS = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int64): TensorProto.INT64,
         np.dtype(np.int32): TensorProto.INT32, np.dtype(np.bool_): TensorProto.BOOL}


def floats(seed, *shape, low=None):
    rng = np.random.default_rng(seed)
    return (rng.normal(size=shape) if low is None else rng.uniform(low, low + 1, shape)).astype(np.float32)


class Net:
    """net.Add(a, b) appends a node and returns its output's name; arrays become constants."""

    def __init__(self, **inputs):
        self.inputs, self.nodes, self.constants = inputs, [], []

    def name_of(self, operand):
        if operand is None or isinstance(operand, str):
            return operand or ""
        array = np.asarray(operand, dtype=None if isinstance(operand, np.ndarray) else np.float32)
        self.constants.append(numpy_helper.from_array(array, f"const{len(self.constants)}"))
        return self.constants[-1].name

    def __getattr__(self, op):
        def add(*operands, outputs=None, domain="", **attributes):
            names = outputs or [f"value{len(self.nodes)}"]
            operands = [self.name_of(i) for i in operands]
            self.nodes.append(helper.make_node(op, operands, names, domain=domain, **attributes))
            return names[0]
        return add

    def finish(self, opset, expected, **ops):
        """expected: the last node's result, or the graph's outputs by name."""
        if not isinstance(expected, dict):
            self.nodes[-1].output[0] = "output"
            expected = {"output": expected}
        graph = helper.make_graph(
            self.nodes, "pattern",
            [helper.make_tensor_value_info(n, KINDS[a.dtype], a.shape) for n, a in self.inputs.items()],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in expected.items()], self.constants)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets)
        model.ir_version = 8
        return Handmade(model, self.inputs, {n: a.astype(np.float32) for n, a in expected.items()}, ops)


def softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attention(q, k, v, scale=None, mask=0.0):
    """[batch, heads, tokens, head]; fewer key heads than query heads serve several each."""
    times = q.shape[1] // k.shape[1]
    k, v = k.repeat(times, 1), v.repeat(times, 1)
    return softmax(q @ k.swapaxes(-1, -2) * (scale or q.shape[-1] ** -0.5) + mask) @ v


def causal(tokens):
    return np.triu(np.full((tokens, tokens), -np.inf), 1)


def heads(x, count):
    return x.reshape(*x.shape[:2], count, -1).swapaxes(1, 2)


def merged(x):
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def layer_norm(x, weight, bias, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + epsilon) * weight + bias


def gelu(x):
    return x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def ints(*values):
    return np.array(values, np.int64)


def tf_layer_norm():
    """tf.nn.batch_normalization's order: x * inv + (beta - mean * inv)."""
    x, weight, bias = floats(1, BATCH, TOKENS, WIDTH), floats(2, WIDTH, low=0.5), floats(3, WIDTH)
    net = Net(x=x)
    mean = net.ReduceMean("x", axes=[-1], keepdims=1)
    difference = net.Sub("x", mean)
    variance = net.ReduceMean(net.Mul(difference, difference), axes=[-1], keepdims=1)
    inverse = net.Mul(net.Reciprocal(net.Sqrt(net.Add(variance, 1e-3))), weight)
    net.Add(net.Mul("x", inverse), net.Sub(bias, net.Mul(mean, inverse)))
    return net.finish(13, layer_norm(x, weight, bias, 1e-3), layer_norm=1)


def tf_gelu():
    x = floats(4, BATCH, TOKENS, WIDTH)
    net = Net(x=x)
    net.Mul("x", net.Mul(net.Add(net.Erf(net.Mul("x", 0.70710678)), 1.0), 0.5))
    return net.finish(13, gelu(x), gelu=1)


def tf_gelu_tanh():
    x = floats(5, BATCH, TOKENS, WIDTH)
    net = Net(x=x)
    cubed = net.Mul(net.Pow("x", 3.0), 0.044715)
    net.Mul("x", net.Mul(net.Add(net.Tanh(net.Mul(net.Add("x", cubed), 0.79788458)), 1.0), 0.5))
    return net.finish(13, gelu_tanh(x), gelu=1)


def tf_swish():
    x = floats(6, BATCH, TOKENS, WIDTH)
    net = Net(x=x)
    net.Mul("x", net.Sigmoid("x"))
    return net.finish(13, x / (1 + np.exp(-x)), silu=1)


def tf_attention():
    """BERT's of TensorFlow: [batch * tokens, width] products, scores times a constant, a mask added."""
    x = floats(7, BATCH, TOKENS, WIDTH)
    weights = [floats(8 + i, WIDTH, WIDTH) * 0.3 for i in range(4)]
    biases = [floats(12 + i, WIDTH) for i in range(4)]
    net = Net(x=x)
    flat = net.Reshape("x", ints(-1, WIDTH))
    q, k, v = (net.Reshape(net.Add(net.MatMul(flat, w), b), ints(BATCH, TOKENS, HEADS, HEAD))
               for w, b in zip(weights[:3], biases[:3]))
    scores = net.MatMul(net.Transpose(q, perm=[0, 2, 1, 3]), net.Transpose(k, perm=[0, 2, 3, 1]))
    shares = net.Softmax(net.Mul(scores, HEAD ** -0.5), axis=-1)
    mixed = net.Transpose(net.MatMul(shares, net.Transpose(v, perm=[0, 2, 1, 3])), perm=[0, 2, 1, 3])
    out = net.Add(net.MatMul(net.Reshape(mixed, ints(-1, WIDTH)), weights[3]), biases[3])
    net.Reshape(out, ints(BATCH, TOKENS, WIDTH))
    q, k, v = (heads(x @ w + b, HEADS) for w, b in zip(weights[:3], biases[:3]))
    expected = merged(attention(q, k, v)) @ weights[3] + biases[3]
    return net.finish(13, expected, matmul=4, attention=1)


def tf_dense():
    """A dense layer on rank 3 of tf.tensordot: reshape, product, reshape, bias."""
    x, weight, bias = floats(16, BATCH, TOKENS, WIDTH), floats(17, WIDTH, 8), floats(18, 8)
    net = Net(x=x)
    net.Add(net.Reshape(net.MatMul(net.Reshape("x", ints(-1, WIDTH)), weight), ints(BATCH, TOKENS, 8)), bias)
    return net.finish(13, x @ weight + bias, matmul=1)


def rms_norm_node():
    x, weight = floats(30, BATCH, TOKENS, WIDTH), floats(31, WIDTH, low=0.5)
    net = Net(x=x)
    net.RMSNormalization("x", weight, axis=-1, epsilon=1e-5)
    return net.finish(23, x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-5) * weight, rms_norm=1)


def gelu_node(approximate):
    def make():
        x = floats(33, BATCH, TOKENS, WIDTH)
        net = Net(x=x)
        net.Gelu("x", approximate=approximate)
        return net.finish(20, gelu(x) if approximate == "none" else gelu_tanh(x), gelu=1)
    return make


def mish_node():
    x = floats(34, BATCH, TOKENS, WIDTH)
    net = Net(x=x)
    net.Mish("x")
    return net.finish(18, x * np.tanh(np.log1p(np.exp(x))), mish=1)


def swish_node():
    x = floats(35, BATCH, TOKENS, WIDTH)
    net = Net(x=x)
    net.Swish("x")
    return net.finish(24, x / (1 + np.exp(-x)), silu=1)


def group_norm_node():
    """Opset 21's, whose scale and bias are per channel."""
    x, weight, bias = floats(36, BATCH, WIDTH, 5, 7), floats(37, WIDTH, low=0.5), floats(38, WIDTH)
    net = Net(x=x)
    net.GroupNormalization("x", weight, bias, num_groups=3, epsilon=1e-5)
    grouped = x.reshape(BATCH, 3, -1)
    grouped = layer_norm(grouped, 1, 0, 1e-5).reshape(x.shape)
    return net.finish(21, grouped * weight[:, None, None] + bias[:, None, None], group_norm=1)


def sequences():
    """Parts of a tensor, some of which are put together again, as scripted modules are exported."""
    x = floats(39, BATCH, TOKENS, WIDTH)
    net = Net(x=x)
    parts = net.SplitToSequence("x", ints(4, 6, 2), axis=2)
    first, second = net.SequenceAt(parts, np.array(0)), net.SequenceAt(parts, np.array(-2))
    chosen = net.SequenceInsert(net.SequenceInsert(net.SequenceEmpty(), second), first, np.array(0))
    joined = net.ConcatFromSequence(chosen, axis=2)
    net.ConcatFromSequence(net.SequenceConstruct(joined, net.Exp(joined)), axis=1, new_axis=1)
    return net.finish(13, np.stack([x[..., :10], np.exp(x[..., :10])], 1), exp=1)


PATTERNS = {
    "sequences": sequences,
    "tf_layer_norm": tf_layer_norm,
    "tf_gelu": tf_gelu,
    "tf_gelu_tanh": tf_gelu_tanh,
    "tf_swish": tf_swish,
    "tf_attention": tf_attention,
    "tf_dense": tf_dense,
    "rms_norm_node": rms_norm_node,
    "gelu_node": gelu_node("none"),
    "gelu_tanh_node": gelu_node("tanh"),
    "mish_node": mish_node,
    "swish_node": swish_node,
    "group_norm_node": group_norm_node,
}

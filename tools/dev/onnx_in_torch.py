"""Graphs of ONNX in PyTorch, as far as fuzz_onnx.py needs them for gradients. An operator or a form that is not here raises Unknown."""

import math

import torch
import torch.nn.functional as F


class Unknown(Exception):
    pass


def attribute(node, name, default=None):
    for a in node.attribute:
        if a.name == name:
            return {1: lambda: a.f, 2: lambda: a.i, 3: lambda: a.s.decode(), 6: lambda: list(a.floats), 7: lambda: list(a.ints)}.get(a.type, unknown)()
    return default


def unknown():
    raise Unknown


UNARY = {
    "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Exp": torch.exp, "Sin": torch.sin, "Cos": torch.cos, "Tan": torch.tan, "Erf": torch.erf,
    "Softplus": F.softplus, "Softsign": F.softsign, "Neg": torch.neg, "Identity": lambda x: x, "Atan": torch.atan, "Sinh": torch.sinh,
    "Cosh": torch.cosh, "Asinh": torch.asinh, "Reciprocal": torch.reciprocal, "Relu": F.relu, "Abs": torch.abs, "Sqrt": torch.sqrt,
    "Log": torch.log, "HardSwish": F.hardswish, "Mish": F.mish, "Floor": torch.floor, "Ceil": torch.ceil, "Round": torch.round, "Sign": torch.sign,
}
WITH_ATTRIBUTES = {
    "Elu": lambda x, a: F.elu(x, a("alpha", 1.0)),
    "LeakyRelu": lambda x, a: F.leaky_relu(x, a("alpha", 0.01)),
    "Celu": lambda x, a: F.celu(x, a("alpha", 1.0)),
    "Selu": lambda x, a: a("gamma", 1.0507009873554805) * torch.where(x > 0, x, a("alpha", 1.6732632423543772) * (x.clamp(max=0).exp() - 1)),
    "HardSigmoid": lambda x, a: (a("alpha", 0.2) * x + a("beta", 0.5)).clamp(0, 1),
    "Gelu": lambda x, a: F.gelu(x, approximate=a("approximate", "none")),
    "ThresholdedRelu": lambda x, a: torch.where(x > a("alpha", 1.0), x, torch.zeros_like(x)),
    "GlobalAveragePool": lambda x, a: x.mean(tuple(range(2, x.ndim)), keepdim=True),
    "GlobalMaxPool": lambda x, a: x.amax(tuple(range(2, x.ndim)), keepdim=True),
}
BINARY = {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": torch.div, "Pow": torch.pow, "PRelu": lambda x, s: torch.where(x < 0, x * s, x),
          "MatMul": torch.matmul, "Greater": torch.gt, "Less": torch.lt, "Equal": torch.eq, "GreaterOrEqual": torch.ge, "LessOrEqual": torch.le}
REDUCTIONS = {
    "ReduceSum": lambda x, d, k: x.sum(d, k), "ReduceMean": lambda x, d, k: x.mean(d, k), "ReduceMax": lambda x, d, k: x.amax(d, k),
    "ReduceMin": lambda x, d, k: x.amin(d, k), "ReduceL1": lambda x, d, k: x.abs().sum(d, k), "ReduceL2": lambda x, d, k: x.square().sum(d, k).sqrt(),
    "ReduceLogSumExp": lambda x, d, k: torch.logsumexp(x, d, k), "ReduceSumSquare": lambda x, d, k: x.square().sum(d, k),
    "ReduceLogSum": lambda x, d, k: x.sum(d, k).log(),
}


def axes_of(node, x):
    axes = attribute(node, "axes")
    return x[1].tolist() if axes is None and len(x) > 1 and x[1] is not None else axes


def reduced(node, x):
    axes = axes_of(node, x)
    if not axes and attribute(node, "noop_with_empty_axes", 0):
        raise Unknown
    return REDUCTIONS[node.op_type](x[0], tuple(axes or range(x[0].ndim)), bool(attribute(node, "keepdims", 1)))


def softmax(node, x, opset):
    function = F.softmax if node.op_type == "Softmax" else F.log_softmax
    if opset >= 13:
        return function(x, attribute(node, "axis", -1))
    axis = attribute(node, "axis", 1) % x.ndim
    return function(x.flatten(axis) if axis else x.flatten()[None], -1).reshape(x.shape)  # over all later axes


def sliced(node, x):
    if len(x) < 3:
        raise Unknown
    y = x[0]
    axes = x[3].tolist() if len(x) > 3 and x[3] is not None else range(len(x[1]))
    steps = x[4].tolist() if len(x) > 4 and x[4] is not None else [1] * len(x[1])
    for start, end, axis, step in zip(x[1].tolist(), x[2].tolist(), axes, steps):
        size = y.shape[axis]
        if step < 0 and end < -size:
            end = None
        y = y.index_select(axis, torch.tensor(range(size)[start:end:step], dtype=torch.int64))
    return y


def reshaped(node, x):
    if attribute(node, "allowzero", 0):
        raise Unknown
    return x[0].reshape([x[0].shape[i] if n == 0 else n for i, n in enumerate(x[1].tolist())])


def windows(node, x, kernel):
    if attribute(node, "auto_pad", "NOTSET") != "NOTSET" or attribute(node, "ceil_mode", 0):
        raise Unknown
    axes = x.ndim - 2
    pads = attribute(node, "pads", [0] * 2 * axes)
    flat = [p for i in reversed(range(axes)) for p in (pads[i], pads[i + axes])]
    return flat, attribute(node, "strides", [1] * axes), attribute(node, "dilations", [1] * axes)


def conv(node, x):
    pads, strides, dilations = windows(node, x[0], x[1].shape[2:])
    function = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[x[0].ndim - 2]
    return function(F.pad(x[0], pads), x[1], x[2] if len(x) > 2 else None, strides, 0, dilations, attribute(node, "group", 1))


def max_pool(node, x):
    pads, strides, dilations = windows(node, x[0], None)
    function = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[x[0].ndim - 2]
    return function(F.pad(x[0], pads, value=-torch.inf), attribute(node, "kernel_shape"), strides, 0, dilations)


def gemm(node, x):
    a, b = (t.T if attribute(node, name, 0) else t for t, name in zip(x, ("transA", "transB")))
    y = attribute(node, "alpha", 1.0) * (a @ b)
    return y if len(x) < 3 or x[2] is None else y + attribute(node, "beta", 1.0) * x[2]


def layer_norm(node, x):
    axis = attribute(node, "axis", -1) % x[0].ndim
    y = F.layer_norm(x[0], x[0].shape[axis:], eps=attribute(node, "epsilon", 1e-5)) * x[1]
    return y + x[2] if len(x) > 2 and x[2] is not None else y


def gather(node, x):
    axis = attribute(node, "axis", 0) % x[0].ndim
    index = torch.where(x[1] < 0, x[1] + x[0].shape[axis], x[1]).long()
    return x[0].index_select(axis, index.flatten()).reshape(*x[0].shape[:axis], *index.shape, *x[0].shape[axis + 1:])


def unsqueezed(node, x):
    axes = axes_of(node, x)
    y = x[0]
    for axis in sorted(a % (y.ndim + len(axes)) for a in axes):
        y = y.unsqueeze(axis)
    return y


def squeezed(node, x):
    axes = axes_of(node, x)
    return x[0].squeeze() if axes is None else x[0].squeeze(tuple(axes))


def clipped(node, x):
    low, high = (x[i] if len(x) > i and x[i] is not None else None for i in (1, 2))
    y = x[0] if low is None else torch.maximum(x[0], low)
    return y if high is None else torch.minimum(y, high)


OTHERS = {
    "Reshape": reshaped, "Conv": conv, "MaxPool": max_pool, "Gemm": gemm, "LayerNormalization": layer_norm, "Gather": gather,
    "Unsqueeze": unsqueezed, "Squeeze": squeezed, "Clip": clipped, "Slice": sliced,
    "Transpose": lambda n, x: x[0].permute(attribute(n, "perm", list(reversed(range(x[0].ndim))))),
    "Concat": lambda n, x: torch.cat(x, attribute(n, "axis")),
    "Flatten": lambda n, x: x[0].reshape(math.prod(x[0].shape[:attribute(n, "axis", 1)]), -1),
    "Expand": lambda n, x: x[0] * torch.ones(x[1].tolist(), dtype=x[0].dtype),
    "Tile": lambda n, x: x[0].tile(x[1].tolist()),
    "Where": lambda n, x: torch.where(*x),
    "Sum": lambda n, x: sum(x[1:], x[0]),
    "Mean": lambda n, x: sum(x[1:], x[0]) / len(x),
    "Einsum": lambda n, x: torch.einsum(attribute(n, "equation"), *x),
}


def computed(node, x, opset):
    kind = node.op_type
    a = lambda name, default: attribute(node, name, default)
    if kind in UNARY:
        return UNARY[kind](x[0])
    if kind in WITH_ATTRIBUTES:
        return WITH_ATTRIBUTES[kind](x[0], a)
    if kind in BINARY and all(t.dtype == torch.float32 for t in x):
        return BINARY[kind](*x)
    if kind in REDUCTIONS and x[0].dtype == torch.float32:
        return reduced(node, x)
    if kind in ("Softmax", "LogSoftmax"):
        return softmax(node, x[0], opset)
    if kind in OTHERS and len(node.output) == 1:
        return OTHERS[kind](node, x)
    raise Unknown


def gradients(model, constants, inputs, of, cotangent, wrt):
    """The value `of` and gradients by input, by PyTorch; nodes that `of` does not need are left out."""
    opset = model.opset_import[0].version
    values = {n: torch.tensor(v) for n, v in {**constants, **inputs}.items()}
    values[""] = None
    for name in wrt:
        values[name].requires_grad_(True)
    needed = {of}
    for node in reversed(model.graph.node):
        if needed & set(node.output):
            needed |= set(node.input)
    for node in model.graph.node:
        if needed & set(node.output):
            try:
                values[node.output[0]] = computed(node, [values[i] for i in node.input], opset)
            except (KeyError, IndexError, RuntimeError, TypeError, ValueError) as problem:
                raise Unknown from problem
    y = values[of]
    if not y.requires_grad or y.numel() != cotangent.size:
        raise Unknown
    made = torch.autograd.grad(y, [values[n] for n in wrt], torch.tensor(cotangent).reshape(y.shape), allow_unused=True)
    return y.detach().numpy(), {n: (torch.zeros_like(values[n]) if d is None else d).numpy() for n, d in zip(wrt, made)}

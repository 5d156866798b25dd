"""What ONNX's ops mean, in plain numpy and double precision: as little code as says it. For layout_test.py.

Each function takes the node's attributes as a dict and its inputs; it returns the output, or a list of several.
"""

import itertools

import numpy as np


def windows(x, size, strides, pads, dilations, fill):
    """[N, C, spatial...] -> [N, C, out..., kernel...]: what a kernel sees at each place."""
    n = len(size)
    x = np.pad(x, [(0, 0), (0, 0), *zip(pads[:n], pads[n:])], constant_values=fill)
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, size)]
    view = np.lib.stride_tricks.sliding_window_view(x, reach, axis=tuple(range(2, 2 + n)))
    places = tuple(slice(None, None, s) for s in strides)
    taps = tuple(slice(None, None, d) for d in dilations)
    return view[(slice(None), slice(None), *places, *taps)]


def spatial(a, size):
    n = len(size)
    return a.get("strides", [1] * n), a.get("pads", [0] * 2 * n), a.get("dilations", [1] * n)


def per_channel(values, rank):
    return values.reshape(-1, *[1] * (rank - 2))


def conv(a, x, w, b=None):
    groups, size = a.get("group", 1), w.shape[2:]
    seen = windows(x, size, *spatial(a, size), 0)
    n, taps = len(size), tuple(range(-len(size), 0))
    outs = []
    for part, kernels in zip(np.split(seen, groups, 1), np.split(w, groups, 0)):
        # Sums over the channels of the group and the kernel's taps; output channels come last, then move to axis 1.
        out = np.tensordot(part, kernels, axes=((1, *(t + part.ndim for t in taps)), (1, *range(2, 2 + n))))
        outs.append(np.moveaxis(out, -1, 1))
    y = np.concatenate(outs, 1)
    return y if b is None else y + per_channel(b, y.ndim)


def conv_transpose(a, x, w, b=None):
    """Each input element adds its kernel to the output."""
    groups, size = a.get("group", 1), w.shape[2:]
    strides, pads, dilations = spatial(a, size)
    n = len(size)
    full = [s * (e - 1) + d * (k - 1) + 1 for s, e, d, k in zip(strides, x.shape[2:], dilations, size)]
    y = np.zeros((x.shape[0], w.shape[1] * groups, *full))
    for tap in itertools.product(*map(range, size)):
        kernels = np.split(w[(slice(None), slice(None), *tap)], groups, 0)
        moved = [np.moveaxis(np.tensordot(part, k, axes=(1, 0)), -1, 1) for part, k in zip(np.split(x, groups, 1), kernels)]
        place = tuple(slice(t * d, t * d + s * (e - 1) + 1, s) for t, d, s, e in zip(tap, dilations, strides, x.shape[2:]))
        y[(slice(None), slice(None), *place)] += np.concatenate(moved, 1)
    y = y[(slice(None), slice(None), *(slice(p, e - q) for p, q, e in zip(pads[:n], pads[n:], full)))]
    return y if b is None else y + per_channel(b, y.ndim)


def pool(reduce, fill):
    def run(a, x):
        size = a["kernel_shape"]
        seen = windows(x, size, *spatial(a, size), fill)
        return reduce(seen, axis=tuple(range(-len(size), 0)))
    return run


def global_pool(reduce):
    return lambda a, x: reduce(x, axis=tuple(range(2, x.ndim)), keepdims=True)


def normalized(x, axes, epsilon):
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred ** 2).mean(axes, keepdims=True) + epsilon)


def batch_norm(a, x, scale, bias, mean, var):
    scale, bias, mean, var = (per_channel(t, x.ndim) for t in (scale, bias, mean, var))
    return (x - mean) / np.sqrt(var + a.get("epsilon", 1e-5)) * scale + bias


def instance_norm(a, x, scale, bias):
    y = normalized(x, tuple(range(2, x.ndim)), a.get("epsilon", 1e-5))
    return y * per_channel(scale, x.ndim) + per_channel(bias, x.ndim)


def group_norm(a, x, scale, bias):
    y = normalized(x.reshape(x.shape[0], a["num_groups"], -1), -1, a.get("epsilon", 1e-5)).reshape(x.shape)
    return y * per_channel(scale, x.ndim) + per_channel(bias, x.ndim)


def layer_norm(a, x, scale, bias=0.0):
    axis = a.get("axis", -1) % x.ndim
    return normalized(x, tuple(range(axis, x.ndim)), a.get("epsilon", 1e-5)) * scale + bias


def resize(a, x, _, scales):
    """Nearest and linear, half pixels, for whole scales."""
    for axis, scale in enumerate(scales.astype(int)):
        if scale == 1:
            continue
        size = x.shape[axis]
        at = (np.arange(size * scale) + 0.5) / scale - 0.5
        if a["mode"] == "nearest":
            x = x.take(np.clip(np.ceil(at - 0.5).astype(int), 0, size - 1), axis)
        else:
            low = np.floor(at).astype(int)
            share = (at - low).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
            ends = (x.take(np.clip(low + k, 0, size - 1), axis) for k in (0, 1))
            x = next(ends) * (1 - share) + next(ends) * share
    return x


def depth_to_space(a, x):
    b = a["blocksize"]
    n, c, h, w = x.shape
    return x.reshape(n, b, b, c // (b * b), h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, c // (b * b), h * b, w * b)


def softmax(a, x):
    axis = a.get("axis", -1)
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def reduction(function):
    def run(a, x, axes=None):
        chosen = a.get("axes") if axes is None else axes.astype(int)
        return function(x, axis=None if chosen is None else tuple(chosen), keepdims=bool(a.get("keepdims", 1)))
    return run


def arg_max(a, x):
    y = x.argmax(a["axis"])
    return np.expand_dims(y, a["axis"]) if a.get("keepdims", 1) else y


def slices(a, x, starts, ends, axes, steps):
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(*(t.astype(int) for t in (starts, ends, axes, steps))):
        index[axis] = slice(start, end, step)
    return x[tuple(index)]


def reshape(a, x, shape):
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape.astype(int))])


def split(a, x, sizes):
    return np.split(x, np.cumsum(sizes.astype(int))[:-1], a.get("axis", 0))


def gemm(a, x, w, c=0.0):
    return a.get("alpha", 1.0) * (x.T if a.get("transA") else x) @ (w.T if a.get("transB") else w) + c


def flatten(a, x):
    return x.reshape(int(np.prod(x.shape[:a.get("axis", 1)])), -1)


OPS = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MaxPool": pool(np.max, -np.inf),
    "AveragePool": pool(np.nanmean, np.nan),  # padding does not count
    "GlobalAveragePool": global_pool(np.mean),
    "GlobalMaxPool": global_pool(np.max),
    "BatchNormalization": batch_norm,
    "InstanceNormalization": instance_norm,
    "GroupNormalization": group_norm,
    "LayerNormalization": layer_norm,
    "Resize": resize,
    "DepthToSpace": depth_to_space,
    "Softmax": softmax,
    "LogSoftmax": lambda a, x: np.log(softmax(a, x)),
    "ReduceSum": reduction(np.sum),
    "ReduceMean": reduction(np.mean),
    "ReduceMax": reduction(np.max),
    "ReduceL2": reduction(lambda x, axis, keepdims: np.sqrt((x * x).sum(axis, keepdims=keepdims))),
    "ArgMax": arg_max,
    "Transpose": lambda a, x: x.transpose(a.get("perm")),
    "Identity": lambda a, x: x,
    "Reshape": reshape,
    "Flatten": flatten,
    "Squeeze": lambda a, x, axes: np.squeeze(x, tuple(axes.astype(int))),
    "Unsqueeze": lambda a, x, axes: np.expand_dims(x, tuple(axes.astype(int))),
    "Expand": lambda a, x, shape: x * np.ones(shape.astype(int)),
    "Concat": lambda a, *xs: np.concatenate(xs, a["axis"]),
    "Split": split,
    "Slice": slices,
    "Pad": lambda a, x, pads: np.pad(x, pads.astype(int).reshape(2, -1).T),
    "Gather": lambda a, x, at: x.take(at.astype(int), a.get("axis", 0)),
    "Where": lambda a, c, x, y: np.where(c, x, y),
    "Greater": lambda a, x, y: x > y,
    "MatMul": lambda a, x, y: x @ y,
    "Gemm": gemm,
    "Einsum": lambda a, *xs: np.einsum(a["equation"], *xs),
    "Add": lambda a, x, y: x + y,
    "Sub": lambda a, x, y: x - y,
    "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y,
    "Exp": lambda a, x: np.exp(x),
    "Tanh": lambda a, x: np.tanh(x),
    "Sigmoid": lambda a, x: 1 / (1 + np.exp(-x)),
    "Relu": lambda a, x: np.maximum(x, 0),
    "PRelu": lambda a, x, slope: np.where(x < 0, x * slope, x),
}


def evaluate(nodes, values, shift=None):
    """Adds the value of every node to `values`. nodes: (op, inputs, outputs, attributes). shift: (name, what to add to that
    value once it is computed), for derivatives with respect to values on the way."""
    for op, inputs, outputs, attributes in nodes:
        made = OPS[op](attributes, *(None if name == "" else values[name] for name in inputs))
        for name, value in zip(outputs, made if isinstance(made, list) else [made]):
            values[name] = value + shift[1] if shift and shift[0] == name else value
    return values

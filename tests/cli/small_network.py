"""A small network with what workers must agree upon, as an ONNX file that is written by hand: a residual block, batch norm,
dropout. Standard library only."""

import struct

import cli


def number(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(tag, value):
    if isinstance(value, int):
        return number(tag << 3) + number(value)
    if isinstance(value, float):
        return number(tag << 3 | 5) + struct.pack("<f", value)
    raw = value.encode() if isinstance(value, str) else value
    return number(tag << 3 | 2) + number(len(raw)) + raw


def attribute(name, value):
    if isinstance(value, int):
        return field(1, name) + field(3, value) + field(20, 2)
    if isinstance(value, float):
        return field(1, name) + field(2, value) + field(20, 1)
    return field(1, name) + b"".join(field(8, i) for i in value) + field(20, 7)


def node(kind, inputs, output, **attributes):
    return field(1, b"".join([*(field(1, name) for name in inputs), field(2, output), field(3, output), field(4, kind),
                              *(field(5, attribute(name, value)) for name, value in attributes.items())]))


def tensor(name, shape, values):
    return field(5, b"".join(field(1, n) for n in shape) + field(2, 1) + field(8, name) +
                 field(9, struct.pack(f"<{len(values)}f", *values)))


def value(tag, name, *shape):
    dims = b"".join(field(1, field(2, n) if isinstance(n, str) else field(1, n)) for n in shape)
    return field(tag, field(1, name) + field(2, field(1, field(1, 1) + field(2, dims))))


def write(path, classes=4):
    """Images [batch, 1, 8, 8] to logits."""
    weights, nodes = [], []

    def random(name, shape, seed):
        count = 1
        for n in shape:
            count *= n
        weights.append(tensor(name, shape, [0.5 * x for x in cli.random_floats(count, seed)]))

    def layer(name, source, channels, seed):
        random(f"{name}.w", (4, channels, 3, 3), seed)
        nodes.append(node("Conv", [source, f"{name}.w"], f"{name}.c", pads=[1, 1, 1, 1], kernel_shape=[3, 3]))
        for part, fill in (("scale", 1.0), ("shift", 0.1), ("mean", 0.0), ("var", 1.0)):
            weights.append(tensor(f"{name}.{part}", (4,), [fill] * 4))
        nodes.append(node("BatchNormalization", [f"{name}.c", *(f"{name}.{p}" for p in ("scale", "shift", "mean", "var"))], f"{name}.n"))
        return f"{name}.n"

    nodes.append(node("Relu", [layer("first", "image", 1, 1)], "h"))
    nodes.append(node("Add", [layer("second", "h", 4, 2), "h"], "sum"))
    nodes.append(node("Relu", ["sum"], "block"))
    weights.append(tensor("ratio", (), [0.3]))
    nodes.append(node("Dropout", ["block", "ratio"], "dropped"))
    nodes.append(node("Flatten", ["dropped"], "flat", axis=1))
    random("fc.w", (256, classes), 3)
    random("fc.b", (classes,), 4)
    nodes.append(node("Gemm", ["flat", "fc.w", "fc.b"], "logits"))
    graph = b"".join(nodes) + field(2, "small") + b"".join(weights) + value(11, "image", "batch", 1, 8, 8) + value(12, "logits", "batch", classes)
    with open(path, "wb") as file:
        file.write(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, 13)))

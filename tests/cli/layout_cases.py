"""Networks in which an op that may keep its axes in another order meets a transpose. For layout_test.py.

A row: a name, inputs by name, and nodes "out = Op(in, ...) attribute=value, ..." separated by "|". Sizes are letters, so that
each row is made twice: with sizes that all differ, where a wrong order of axes shows in a shape, and with sizes that are all
equal, where only values show it. w[K,C,3,3] is a weight of that shape, {0,C*H} int64 constants, 0.5 a scalar.
"""

import collections

# B: the batch. K: channels that a convolution makes. G, M: other widths. C, H, W, D: an input's axes.
DISTINCT = {"B": 2, "C": 3, "H": 4, "W": 5, "K": 6, "D": 7, "M": 8, "G": 6}
EQUAL = dict.fromkeys("BCHWKDMG", 4)

# outputs: what the network gives; the last node's output by default. wrt: values on the way to differentiate for too.
# train: the loss of a step on the first output. opset: ONNX's. equal: whether a run with equal sizes is made as well.
Row = collections.namedtuple("Row", "name inputs nodes outputs wrt train opset equal")

ROWS = []


def row(name, inputs, nodes, outputs="y", wrt="", train=None, opset=17, equal=False):
    ROWS.append(Row(name, inputs, nodes, outputs.split(), wrt.split(), train, opset, equal))


IMAGE = {"x": "B,C,H,W"}
LINE = {"x": "B,C,H"}
VOLUME = {"x": "B,C,H,W,D"}
CONV = "c = Conv(x, w[K,C,3,3], b[K]) pads=1,1,1,1 | "
CONV_1D = "c = Conv(x, w[K,C,3], b[K]) pads=1,1 | "
LAST = "t = Transpose(c) perm=0,2,3,1 | "  # channels last
FIRST = "y = Transpose(s) perm=0,3,1,2"    # and back

# --- op, transpose, output: every op that may keep its channels last (convolutions and pools over three spatial axes do not
# convert, so rank 5 comes from moves and elementwise ops)
row("conv", IMAGE, CONV + "y = Transpose(c) perm=0,2,3,1", wrt="c", train="mse", equal=True)
row("conv, a rotation of the axes", IMAGE, CONV + "y = Transpose(c) perm=1,2,3,0", wrt="c", equal=True)
row("conv, axes reversed", IMAGE, CONV + "y = Transpose(c)", equal=True)
row("conv, batch and channels swapped", IMAGE, CONV + "y = Transpose(c) perm=1,0,2,3")
row("conv, height and width swapped", IMAGE, CONV + "y = Transpose(c) perm=0,1,3,2", train="mse", equal=True)
row("grouped conv", IMAGE, "c = Conv(x, w[2*C,1,2,1], b[2*C]) group=C | y = Transpose(c) perm=0,3,1,2")
row("strided conv", IMAGE, "c = Conv(x, w[K,C,3,2]) strides=1,2, pads=1,0,1,1 | y = Transpose(c) perm=3,0,1,2")
row("dilated conv", IMAGE, "c = Conv(x, w[K,C,1,3], b[K]) dilations=1,2, pads=0,1,0,1 | y = Transpose(c) perm=2,3,0,1")
row("conv 1d", LINE, CONV_1D + "y = Transpose(c) perm=0,2,1", wrt="c", train="mse", equal=True)
row("conv 1d, a rotation", LINE, CONV_1D + "y = Transpose(c) perm=1,2,0", equal=True)
row("transposed conv", IMAGE, "c = ConvTranspose(x, w[C,K,3,3], b[K]) strides=2,2 | y = Transpose(c) perm=0,2,3,1", wrt="c",
    equal=True)
row("grouped transposed conv", IMAGE, "c = ConvTranspose(x, w[C,M,2,3], b[M*C]) group=C | y = Transpose(c) perm=1,2,3,0")
row("transposed conv 1d", LINE, "c = ConvTranspose(x, w[C,K,3], b[K]) strides=2, pads=1,1 | y = Transpose(c) perm=2,0,1")
row("max pool", IMAGE, "c = MaxPool(x) kernel_shape=3,3, pads=1,1,1,1 | y = Transpose(c) perm=0,2,3,1", wrt="c", equal=True)
row("max pool 1d", LINE, "c = MaxPool(x) kernel_shape=3, pads=1,1 | y = Transpose(c) perm=2,0,1")
row("average pool", IMAGE, "c = AveragePool(x) kernel_shape=2,2, pads=1,1,0,0 | y = Transpose(c) perm=1,2,3,0", equal=True)
row("global average pool", IMAGE, CONV + "p = GlobalAveragePool(c) | y = Transpose(p) perm=1,2,3,0", wrt="p")
row("global max pool", IMAGE, CONV + "p = GlobalMaxPool(c) | y = Transpose(p) perm=0,2,3,1")
row("batch norm", IMAGE, "c = BatchNormalization(x, g[C], h[C], m[C], +v[C]) | y = Transpose(c) perm=0,2,3,1", wrt="c", equal=True)
row("batch norm behind a conv", IMAGE,
    CONV + "n = BatchNormalization(c, g[K], h[K], m[K], +v[K]) | r = Relu(n) | y = Transpose(r) perm=3,0,1,2", wrt="n")
row("instance norm", IMAGE, "c = InstanceNormalization(x, g[C], h[C]) | y = Transpose(c) perm=0,2,3,1", equal=True)
row("instance norm 1d", LINE, "c = InstanceNormalization(x, g[C], h[C]) | y = Transpose(c) perm=1,2,0")
row("group norm", IMAGE, CONV + "n = GroupNormalization(c, g[K], h[K]) num_groups=2 | y = Transpose(n) perm=0,2,3,1", opset=21)
row("nearest resize", IMAGE, "c = Resize(x, , <1,1,2,3>) mode=nearest | y = Transpose(c) perm=0,2,3,1", equal=True)
row("linear resize", IMAGE, CONV + "r = Resize(c, , <1,1,2,2>) mode=linear | y = Transpose(r) perm=1,2,3,0", wrt="c")
row("depth to space", {"x": "B,4*C,H,W"}, "c = DepthToSpace(x) blocksize=2 | y = Transpose(c) perm=0,2,3,1")
row("elementwise ops", IMAGE, CONV + "r = Tanh(c) | e = Exp(r) | y = Transpose(e) perm=0,2,3,1", wrt="c r", equal=True)
row("prelu", IMAGE, CONV + "r = PRelu(c, s[K,1,1]) | y = Transpose(r) perm=0,3,2,1")
row("two convs", IMAGE, CONV + "r = Relu(c) | d = Conv(r, u[M,K,1,1]) | y = Transpose(d) perm=0,2,3,1", wrt="r", train="mse")
row("sum of two convs", IMAGE, CONV + "d = Conv(x, u[K,C,1,1]) | s = Add(c, d) | y = Transpose(s) perm=2,3,1,0")
row("conv of a transposed input", {"x": "B,H,W,C"}, "i = Transpose(x) perm=0,3,1,2 | c = Conv(i, w[K,C,3,3]) pads=1,1,1,1 | "
    "y = Transpose(c) perm=0,2,3,1", wrt="i", train="mse", equal=True)

# --- transpose, op, transpose back
row("softmax over channels", IMAGE, CONV + LAST + "s = Softmax(t) axis=-1 | " + FIRST, wrt="t", train="mse", equal=True)
row("softmax, then last", IMAGE, CONV + "s = Softmax(c) axis=1 | y = Transpose(s) perm=0,2,3,1", equal=True)
row("log softmax", IMAGE, CONV + LAST + "s = LogSoftmax(t) axis=2 | " + FIRST, wrt="t")
row("layer norm over channels", IMAGE, CONV + LAST + "s = LayerNormalization(t, g[K], h[K]) | " + FIRST, wrt="s t", train="mse",
    equal=True)
row("layer norm, left last", IMAGE, CONV + LAST + "y = LayerNormalization(t, g[K], h[K])")
row("elementwise between", IMAGE, "t = Transpose(x) perm=0,2,3,1 | s = Sigmoid(t) | " + FIRST, wrt="t s", equal=True)
row("a rotation and on", IMAGE, "t = Transpose(x) perm=1,2,3,0 | s = Tanh(t) | y = Transpose(s) perm=1,2,3,0", wrt="t", equal=True)
row("reduce mean, axes kept", IMAGE, CONV + LAST + "s = ReduceMean(t) axes=1, keepdims=1 | " + FIRST)
row("reduce max", IMAGE, CONV + LAST + "s = ReduceMax(t) axes=2, keepdims=0 | y = Transpose(s) perm=1,2,0", equal=True)
row("reduce sum", IMAGE, CONV + LAST + "s = ReduceSum(t, {3}) keepdims=0 | y = Transpose(s) perm=2,0,1")
row("reduce l2", IMAGE, "t = Transpose(x) perm=0,2,3,1 | s = ReduceL2(t) axes=3, keepdims=1 | " + FIRST)
row("arg max over channels", IMAGE, CONV + LAST + "y = ArgMax(t) axis=3, keepdims=0", equal=True)
row("arg max, moved", IMAGE, CONV + "a = ArgMax(c) axis=1, keepdims=1 | y = Transpose(a) perm=0,2,3,1")
row("add of [C]", IMAGE, CONV + LAST + "s = Add(t, a[K]) | " + FIRST, wrt="t", train="mse", equal=True)
row("add of [C], left last", IMAGE, CONV + LAST + "y = Add(t, a[K])", equal=True)
row("add of [C,1,1]", IMAGE, CONV + "s = Add(c, a[K,1,1]) | y = Transpose(s) perm=0,2,3,1", equal=True)
row("mul by [1,H,W]", IMAGE, CONV + "s = Mul(c, a[1,H,W]) | y = Transpose(s) perm=0,2,3,1", equal=True)
row("mul by [H,1,K]", IMAGE, CONV + LAST + "y = Mul(t, a[H,1,K])")
row("a scalar", IMAGE, CONV + LAST + "s = Mul(t, 0.5) | z = Sub(1.5, s) | y = Transpose(z) perm=3,1,2,0")
row("concat of transposed values", IMAGE, CONV + "d = Relu(x) | t = Transpose(c) perm=0,2,3,1 | u = Transpose(d) perm=0,2,3,1 | "
    "s = Concat(t, u) axis=3 | " + FIRST, wrt="t", equal=True)
row("concat, then last", IMAGE, CONV + "s = Concat(c, x) axis=1 | y = Transpose(s) perm=0,2,3,1")
row("split", IMAGE, CONV.replace("K", "M") + LAST + "s, z = Split(t, {1,M-1}) axis=3 | " + FIRST, "y z", wrt="t")
row("slice", IMAGE, CONV + LAST + "s = Slice(t, {0,2}, {3,K}, {1,3}, {1,1}) | " + FIRST, wrt="s", equal=True)
row("pad", IMAGE, CONV + LAST + "s = Pad(t, {0,0,0,0,0,0,2,2}) | " + FIRST)
row("gather", IMAGE, CONV + LAST + "s = Gather(t, {2,0,1}) axis=2 | " + FIRST)
row("flatten", IMAGE, CONV + LAST + "y = Flatten(t) axis=1", train="mse", equal=True)
row("flatten and gemm", IMAGE, CONV + LAST + "f = Flatten(t) axis=1 | y = Gemm(f, u[M,H*W*K], v[M]) transB=1", wrt="f", train="ce",
    equal=True)
row("reshape", IMAGE, CONV + LAST + "s = Reshape(t, {0,H*W,K}) | y = Transpose(s) perm=0,2,1", wrt="s", train="mse", equal=True)
row("reshape, left last", IMAGE, CONV + LAST + "y = Reshape(t, {0,H*W,K})", equal=True)
row("tokens of an image", IMAGE, CONV + "f = Reshape(c, {0,K,H*W}) | t = Transpose(f) perm=0,2,1 | "
    "y = MatMul(t, u[K,M])", wrt="t", train="mse", equal=True)
row("expand", {"x": "B,C,1,W"}, "t = Transpose(x) perm=0,2,3,1 | s = Expand(t, {B,H,W,C}) | " + FIRST)
row("where", IMAGE, CONV + LAST + "q = Greater(t, 0.0) | n = Mul(t, 0.25) | s = Where(q, t, n) | " + FIRST)
row("matmul on channels", IMAGE, CONV + LAST + "s = MatMul(t, u[K,M]) | " + FIRST, wrt="t s", train="mse", equal=True)
row("matmul, left last", IMAGE, "t = Transpose(x) perm=0,2,3,1 | y = MatMul(t, u[C,M])", wrt="t", equal=True)
row("gemm of a transposed matrix", {"x": "B,C"}, "t = Transpose(x) perm=1,0 | s = Gemm(t, u[B,M], v[M]) | y = Transpose(s)")
row("squeeze", {"x": "B,C,1,W"}, CONV + LAST + "s = Squeeze(t, {1}) | y = Transpose(s) perm=2,1,0")
row("unsqueeze", LINE, CONV_1D + "t = Transpose(c) perm=0,2,1 | s = Unsqueeze(t, {1}) | y = Transpose(s) perm=3,1,2,0", wrt="t")
row("class map", IMAGE, CONV + LAST + "s = MatMul(t, u[K,M]) | " + FIRST, train="ce", equal=True)
row("class map of a sequence", LINE,
    "t = Transpose(x) perm=0,2,1 | s = MatMul(t, u[C,M]) | y = Transpose(s) perm=0,2,1", train="ce")
row("shuffled channels", {"x": "B,C*G,H,W"}, "c = Relu(x) | r = Reshape(c, {0,G,C,H,W}) | t = Transpose(r) perm=0,2,1,3,4 | "
    "y = Reshape(t, {0,C*G,H,W})", wrt="t", train="mse")
row("heads", {"x": "B,H,D*C"}, "r = Reshape(x, {0,H,D,C}) | q = Transpose(r) perm=0,2,1,3 | k = Transpose(r) perm=0,2,3,1 | "
    "s = MatMul(q, k) | p = Softmax(s) axis=-1 | m = MatMul(p, q) | t = Transpose(m) perm=0,2,1,3 | y = Reshape(t, {0,H,D*C})",
    wrt="q k", train="mse", equal=True)

# --- einsum
row("permuting einsum", IMAGE, "y = Einsum(x) equation=nchw->whcn", equal=True)
row("permuting einsum of a conv", IMAGE, CONV + "y = Einsum(c) equation=nchw->nhwc", wrt="c", equal=True)
row("einsum to channels last", IMAGE, CONV + "y = Einsum(c, u[K,M]) equation=nkhw,km->nhwm")
row("permuting einsum between", IMAGE, CONV + "t = Einsum(c) equation=nchw->nhwc | s = Softmax(t) axis=-1 | " + FIRST, wrt="t")

# --- outputs that are the transpose of other values
row("a value and its transpose", IMAGE, CONV + "z = Relu(c) | y = Transpose(z) perm=0,2,3,1", "y z", equal=True)
row("the transpose and its value", IMAGE, CONV + "z = Transpose(c) perm=0,2,3,1 | y = Identity(c)", "z y")
row("two transposes of a value", IMAGE, CONV + "y = Transpose(c) perm=0,2,3,1 | z = Transpose(c) perm=1,2,3,0", "y z", wrt="c",
    equal=True)
row("a transposed input and itself", IMAGE, "z = Relu(x) | y = Transpose(x) perm=3,1,0,2", "y z")
row("both used", {"x": "B,H,C"},
    "t = Transpose(x) perm=0,2,1 | q = MatMul(x, u[C,M]) | y = MatMul(t, q)", wrt="t q", train="mse", equal=True)
row("both used behind a conv", IMAGE, CONV + LAST + "q = MatMul(t, u[K,K]) | r = Transpose(q) perm=0,3,1,2 | y = Add(r, c)",
    wrt="t c r", equal=True)
row("identity of a transposed value", IMAGE, CONV + LAST + "y = Identity(t)", wrt="t", equal=True)
row("identity before and behind", IMAGE,
    CONV + "i = Identity(c) | t = Transpose(i) perm=1,2,3,0 | j = Identity(t) | y = Identity(j)")
row("an input, rank 3", LINE, "y = Transpose(x) perm=1,2,0", wrt="", equal=True)
row("an input, rank 4", IMAGE, "y = Transpose(x) perm=0,2,3,1", train="mse", equal=True)
row("an input, rank 4, a rotation", IMAGE, "y = Transpose(x) perm=1,2,3,0", equal=True)
row("an input, rank 5", VOLUME, "y = Transpose(x) perm=0,2,3,4,1", equal=True)
row("an input, rank 5, reversed", VOLUME, "y = Transpose(x)")
row("elementwise ops of rank 5", VOLUME, "c = Tanh(x) | t = Transpose(c) perm=0,2,3,4,1 | m = Mul(t, a[C]) | "
    "y = Transpose(m) perm=1,2,3,4,0", wrt="t")
row("softmax of rank 5", VOLUME, "t = Transpose(x) perm=4,0,3,1,2 | s = Softmax(t) axis=3 | "
    "y = Transpose(s) perm=1,3,4,2,0", wrt="s", equal=True)
row("two rotations", IMAGE, "t = Transpose(x) perm=1,2,3,0 | y = Transpose(t) perm=1,2,3,0", wrt="t", equal=True)
row("a transpose and its inverse", IMAGE, CONV + LAST + "y = Transpose(t) perm=0,3,1,2", wrt="t")
row("convs with a transpose between", IMAGE, CONV + "t = Transpose(c) perm=0,2,1,3 | y = Conv(t, u[M,H,1,1])", wrt="t", train="mse",
    equal=True)
row("a sum over a conv's transpose", IMAGE, CONV + LAST + "m = Mul(t, a[K]) | y = ReduceMean(m) keepdims=0", wrt="t c", equal=True)
row("a sum of squares of rank 3", LINE, CONV_1D + "t = Transpose(c) perm=2,0,1 | q = Mul(t, t) | y = ReduceSum(q) keepdims=0",
    wrt="t q")

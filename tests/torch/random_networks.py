"""Networks put together at random from what people write in PyTorch, exported by it and compared: forward, gradients of every
parameter and of the input, and two steps of training, against PyTorch in double precision.

    random_networks.py GRAFT [COUNT [FIRST_SEED]] [--open]     (run with a Python that has torch and onnx)

A seed makes the same network each time. Each is exported with a batch of 3 and compared with one of 5; with --open, also with its length,
height and width open, and larger by 2 where it is compared, as far as the network takes that. What graft refuses to convert is
counted and named with its sentence; what PyTorch cannot export is left out. Exit status: 0 none is wrong, 1 some are, 77 torch or onnx is
not installed.
"""

import collections
import copy
import inspect
import os
import random
import sys
import tempfile
import warnings

try:
    import numpy as np
    import onnx  # noqa: F401  (PyTorch's exporter wants it)
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import parity
from kinds import read_safetensors
from parity import graft

EXPORTED, COMPARED = 3, 5
MOST_ELEMENTS = 6000  # of a sample: kernels are not what is looked at

# f32 against f64. Beyond it by PyTorch's own difference between the two, times this.
FORWARD, GRADIENT, TRAINED, OWN = 1e-4, 1e-3, 2e-3, 30
RATE, STEPS = 0.05, 2


class Do(nn.Module):
    """A function with parameters of its own."""

    def __init__(self, function, *parameters):
        super().__init__()
        self.function = function
        self.its = nn.ParameterList(nn.Parameter(p) for p in parameters)

    def forward(self, x):
        return self.function(x, *self.its)

    def extra_repr(self):
        try:
            lines = inspect.getsource(self.function).strip().split("\n")
        except (OSError, TypeError):
            return str(self.function)
        held = {name: cell.cell_contents for name, cell in zip(self.function.__code__.co_freevars, self.function.__closure__ or ())}
        return f"{lines[0][:150]} line {self.function.__code__.co_firstlineno} {held}"


class First(nn.Module):
    """The first result of a module that has several."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)[0]


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class Causal(nn.Module):
    """Attention by hand, each place over those before it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (part.view(b, t, self.heads, c // self.heads).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / (c // self.heads)**0.5
        scores = scores.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf"))
        return (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, c)


class Residual(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        return x + self.body(x)


class Join(nn.Module):
    """Two branches, side by side along an axis."""

    def __init__(self, a, b, axis):
        super().__init__()
        self.a, self.b, self.axis = a, b, axis

    def forward(self, x):
        return torch.cat([self.a(x), self.b(x)], self.axis)


class Gate(nn.Module):
    def __init__(self, channels, axis):
        super().__init__()
        self.axis = axis
        self.gate = nn.Sequential(nn.Linear(channels, 3), nn.ReLU(), nn.Linear(3, channels))

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x.mean([i for i in range(1, x.dim()) if i != self.axis])))
        return x * gate.view(*gate.shape, *[1] * (x.dim() - 2)) if self.axis == 1 else x * gate.unsqueeze(1)


POINTWISE = (
    nn.ReLU, nn.ReLU6, nn.Sigmoid, nn.Tanh, nn.SiLU, nn.GELU, nn.Mish, nn.Hardswish, nn.Hardsigmoid, nn.Softplus, nn.ELU, nn.SELU, nn.CELU,
    nn.LogSigmoid, nn.Softsign, nn.LeakyReLU, nn.Hardtanh, nn.Tanhshrink, nn.PReLU, lambda: nn.Softplus(beta=2),
    lambda: nn.Softshrink(0.3), lambda: nn.Hardshrink(0.3), lambda: nn.Threshold(0.1, -0.4), lambda: Do(lambda x: x.abs()),
    lambda: Do(lambda x: torch.exp(-x * x)), lambda: Do(lambda x: torch.log1p(x * x)), lambda: Do(lambda x: (x * x + 1).sqrt()),
    lambda: Do(torch.sin), lambda: Do(torch.cos), lambda: Do(torch.erf), lambda: Do(torch.atan), lambda: Do(lambda x: x.clamp(-0.7, 0.9)),
    lambda: Do(lambda x: torch.where(x > 0.1, 2 * x, x - 0.3)), lambda: Do(lambda x: x.pow(2)), lambda: Do(lambda x: x**3 / 4),
    lambda: Do(lambda x: 1 / (x * x + 1)), lambda: Do(lambda x: (x * x + 1).rsqrt()), lambda: Do(lambda x: 1 - x),
    lambda: Do(lambda x: torch.max(x, torch.tensor(0.2))), lambda: Do(lambda x: torch.min(x, x * x)), lambda: Do(lambda x: x * (x > 0)),
    lambda: Do(lambda x: F.gelu(x, approximate="tanh")), lambda: Do(lambda x: x.sign() * x * 0.5), lambda: Do(lambda x: x / (1 + x.abs())),
    lambda: Do(lambda x: torch.exp(x.clamp(max=1.0))), lambda: Do(lambda x: F.hardtanh(x, -0.5, 0.5) + x.floor() * 0.1),
    lambda: Do(lambda x: torch.remainder(x, 1.5)), lambda: Do(lambda x: (x.round() - x).abs()),
)


def normal(*shape):
    return torch.randn(*shape) * 0.5


def part_of(r, shape):
    """A shape that spreads over this one."""
    kept = [n if r.random() < 0.6 else 1 for n in shape]
    while kept and r.random() < 0.3:
        kept.pop(0)
    return kept or [1]


def mixed(r, shape):
    """x with a parameter."""
    p = normal(*part_of(r, shape))
    return Do(
        r.choice((lambda x, p: x + p, lambda x, p: p - x, lambda x, p: x * p, lambda x, p: p * x + p, lambda x, p: p / (1 + x * x),
                  lambda x, p: torch.max(x, p), lambda x, p: torch.min(p, x), lambda x, p: torch.where(x > p, x, p * 0.5),
                  lambda x, p: torch.lerp(x, p.expand_as(x), 0.3), lambda x, p: (x - p).pow(2))), p)


def reduced(r, shape):
    """Along some axes, which stay as 1 or are spread again."""
    axes = sorted(r.sample(range(1, len(shape) + 1), r.randint(1, len(shape))))
    back = r.random() < 0.3
    axes = [a - len(shape) - 1 for a in axes] if back else axes
    one = axes[0]
    reduce = r.choice((lambda x: x.mean(axes, keepdim=True), lambda x: x.sum(axes, keepdim=True) / 4, lambda x: x.amax(axes, keepdim=True),
                       lambda x: x.amin(axes, keepdim=True), lambda x: torch.logsumexp(x, axes, keepdim=True),
                       lambda x: x.var(axes, unbiased=False, keepdim=True), lambda x: (x.var(axes, unbiased=False, keepdim=True) + 0.1).sqrt(),
                       lambda x: x.norm(dim=one, keepdim=True), lambda x: x.abs().sum(axes, keepdim=True), lambda x: x.max(one, keepdim=True)[0],
                       lambda x: x.min(one, keepdim=True)[0], lambda x: (1 + 0.1 * torch.tanh(x)).prod(one, keepdim=True)))
    return Do(r.choice((reduce, lambda x: x - reduce(x), lambda x: x * torch.tanh(reduce(x)), lambda x: x / (1 + reduce(x).abs()))))


def along(r, shape):
    """Something that goes along one axis."""
    axis = r.randrange(len(shape))
    n, d = shape[axis], axis + 1
    d = d - len(shape) - 1 if r.random() < 0.3 else d
    ways = [lambda x: x.softmax(d), lambda x: x.log_softmax(d) * 0.3, lambda x: x.cumsum(d) * 0.3, lambda x: x.flip(d), lambda x: F.normalize(x, dim=d),
            lambda x: torch.cat([x, -x], d)]
    if n > 1:
        begin, step, shift = r.randrange(n - 1), r.randint(1, 3), r.randrange(1, n)
        index = torch.tensor([r.randrange(n) for _ in range(r.randint(1, n + 1))])
        k = r.randint(1, n)
        ways += [lambda x: x.narrow(d, begin, n - begin), lambda x: torch.roll(x, shift, d), lambda x: x.index_select(d, index),
                 lambda x: x.topk(k, d)[0], lambda x: sum(x.split(1, d)) if n < 6 else x, lambda x: x.unbind(d)[begin],
                 lambda x: x.index_select(d, torch.arange(begin, n, step)),
                 lambda x: torch.stack([x.select(d, begin), x.select(d, n - 1)], d), lambda x: x.sort(d, descending=True)[0]]
    if n % 2 == 0:
        ways += [lambda x: F.glu(x, d), lambda x: torch.cat(x.chunk(2, d)[::-1], d), lambda x: x.chunk(2, d)[0] * torch.sigmoid(x.chunk(2, d)[1])]
    return Do(r.choice(ways))


def moved(r, shape):
    """Axes exchanged, joined or split."""
    order = list(range(1, len(shape) + 1))
    r.shuffle(order)
    ways = [lambda x: x.permute(0, *order), lambda x: x.unsqueeze(r_axis), lambda x: x.flatten(1), lambda x: x.flatten(-2) if len(shape) > 1 else x]
    r_axis = r.randint(1, len(shape) + 1) if len(shape) < 4 else 1
    if len(shape) >= 4:
        ways.pop(1)
    for axis, n in enumerate(shape):
        if n % 2 == 0 and len(shape) < 4:
            ways.append(lambda x, a=axis, n=n: x.reshape(x.shape[0], *shape[:a], n // 2, 2, *shape[a + 1:]))
        if n == 1 and len(shape) > 1:
            ways.append(lambda x, a=axis: x.squeeze(a + 1))
    return Do(r.choice(ways))


def of_vector(r, shape):
    (n, ) = shape
    m = r.randint(2, 9)
    return r.choice((lambda: nn.Linear(n, m, bias=r.random() < 0.8), lambda: nn.BatchNorm1d(n), lambda: nn.LayerNorm(n),
                     lambda: Do(lambda x: x.unsqueeze(1) * x.unsqueeze(2) * 0.3), lambda: Do(lambda x, w: x @ w, normal(n, m)),
                     lambda: Do(lambda x, w: F.linear(F.normalize(x), F.normalize(w)), normal(m, n)),
                     lambda: Do(lambda x, c: (x.unsqueeze(1) - c).pow(2).sum(-1) * 0.2, normal(m, n))))()


def of_sequence(r, shape):
    t, c = shape
    m = r.choice((2, 4, 6))
    heads = 2 if c % 2 == 0 else 1
    both = r.random() < 0.5
    size = r.choice((1, 3))
    ways = [lambda: nn.Linear(c, m), lambda: nn.LayerNorm(c), lambda: nn.LayerNorm([t, c]), lambda: Attention(c, heads), lambda: Causal(c, heads),
            lambda: First(nn.LSTM(c, m, batch_first=True, bidirectional=both)), lambda: First(nn.GRU(c, m, batch_first=True, bidirectional=both)),
            lambda: First(nn.RNN(c, m, batch_first=True, nonlinearity=r.choice(("tanh", "relu")))), lambda: nn.BatchNorm1d(t),
            lambda: nn.Conv1d(t, m, size, padding=size // 2), lambda: nn.Conv1d(t, m, min(2, c), stride=r.choice((1, 2)), padding=1),
            lambda: nn.ConvTranspose1d(t, m, 3, stride=2, padding=1), lambda: nn.AvgPool1d(2, ceil_mode=True, padding=0) if c > 1 else nn.Identity(),
            lambda: nn.MaxPool1d(3, stride=1, padding=1), lambda: Do(lambda x, w: torch.einsum("btc,cd->bdt", x, w), normal(c, m)),
            lambda: Do(lambda x: x @ x.transpose(1, 2) * 0.3), lambda: Do(lambda x, w: w @ x, normal(m, t)),
            lambda: Do(lambda x, w: torch.baddbmm(x, x, w.expand(x.shape[0], -1, -1), alpha=0.5), normal(c, c)),
            lambda: Do(lambda x: x.tril()), lambda: Gate(c, 2), lambda: nn.Dropout(0.3),
            lambda: nn.TransformerEncoderLayer(c, heads, 8, batch_first=True, activation=r.choice(("relu", "gelu")), norm_first=both),
            lambda: Do(lambda x, table: x + table[torch.arange(t)], normal(t + 2, c)),
            lambda: First(nn.LSTM(c, m, 2, batch_first=True)),
            lambda: Do(lambda x: F.pad(x, (1, 2), value=0.3)), lambda: Do(lambda x: F.interpolate(x, scale_factor=2, mode="linear")),
            lambda: Do(lambda x, p: x + p[:x.shape[1]], normal(t + 3, c)), lambda: nn.InstanceNorm1d(t, affine=True) if c > 1 else nn.Identity()]
    return r.choice(ways)()


def of_image(r, shape):
    c, h, w = shape
    m = r.choice((2, 3, 4, 6))
    sampling, aligned = r.choice(("bilinear", "nearest", "bicubic")), r.random() < 0.5
    groups = r.choice([g for g in (1, 2, 3, c) if c % g == 0])
    size, stride, dilation = r.choice((1, 2, 3)), r.choice((1, 1, 2)), r.choice((1, 1, 2))
    pad = r.choice((0, 1, (1, 0), "same")) if stride == 1 else r.choice((0, 1))
    mode = r.choice(("zeros", "reflect", "replicate")) if pad == 1 and min(h, w) > 2 else "zeros"
    ways = [lambda: nn.Conv2d(c, m * groups, size, stride, pad, dilation, groups, r.random() < 0.7, mode),
            lambda: nn.Conv2d(c, m, (1, 3), padding=(0, 1)), lambda: nn.Conv2d(c, c, 3, padding=1, groups=c),
            lambda: nn.ConvTranspose2d(c, m * groups, size + 1, stride, 1 if size > 1 else 0, stride - 1, groups), lambda: nn.BatchNorm2d(c),
            lambda: nn.GroupNorm(groups, c), lambda: nn.InstanceNorm2d(c, affine=True) if h * w > 1 else nn.Identity(),
            lambda: nn.LayerNorm([h, w]), lambda: nn.PReLU(c), lambda: nn.MaxPool2d(2, ceil_mode=r.random() < 0.5),
            lambda: nn.MaxPool2d(3, stride=2, padding=1, dilation=1), lambda: nn.MaxPool2d(2, stride=1, dilation=2),
            lambda: nn.AvgPool2d(3, stride=r.choice((1, 2)), padding=1, ceil_mode=r.random() < 0.3, count_include_pad=r.random() < 0.5),
            lambda: nn.AdaptiveAvgPool2d(1), lambda: nn.AdaptiveMaxPool2d(1), lambda: nn.Upsample(scale_factor=2, mode="nearest"),
            lambda: nn.Upsample(scale_factor=2, mode="bilinear", align_corners=r.random() < 0.5),
            lambda: nn.Upsample(size=(h + 1, w + 2), mode="bilinear", align_corners=False), lambda: nn.Upsample(scale_factor=2, mode="bicubic"),
            lambda: nn.ReflectionPad2d(1), lambda: nn.ReplicationPad2d((0, 1, 2, 1)), lambda: nn.ZeroPad2d((1, -1, 0, 1)), lambda: Gate(c, 1),
            lambda: nn.LocalResponseNorm(3), lambda: nn.LPPool2d(2, 2), lambda: nn.Softmax2d(), lambda: nn.Flatten(),
            lambda: Do(lambda x: x[:, :, ::2, 1:]), lambda: Do(lambda x: x[..., :-1]), lambda: Do(lambda x: x.mean([2, 3])),
            lambda: nn.Unfold(2) if min(h, w) > 1 else nn.Identity(),
            lambda: nn.PixelShuffle(2) if c % 4 == 0 else nn.Identity(), lambda: nn.PixelUnshuffle(2) if h % 2 == w % 2 == 0 else nn.Identity(),
            lambda: Do(lambda x: x.view(x.shape[0], groups, c // groups, h, w).transpose(1, 2).reshape(x.shape[0], c, h, w)),
            lambda: nn.Sequential(Do(lambda x: x.permute(0, 2, 3, 1)), nn.LayerNorm(c), nn.Linear(c, m), Do(lambda x: x.permute(0, 3, 1, 2))),
            lambda: Do(lambda x: x.flatten(2).transpose(1, 2)),
            lambda: Do(lambda x, g: F.grid_sample(x, torch.tanh(g).expand(x.shape[0], -1, -1, -1), mode=sampling, align_corners=aligned), normal(1, 3, 4, 2)),
            lambda: Do(lambda x: F.avg_pool2d(x, (h, 1))), lambda: Do(lambda x: F.max_pool2d(x, (1, w)).squeeze(-1)),
            lambda: Do(lambda x, w: F.conv2d(x, F.normalize(w.flatten(1)).view_as(w), padding=1), normal(m, c, 3, 3)),
            lambda: Do(lambda x: F.fold(F.unfold(x, 2, stride=2), (h, w), 2, stride=2) if h % 2 == w % 2 == 0 else x),
            lambda: Do(lambda x: torch.einsum("bchw,bdhw->bcd", x, x) * 0.1), lambda: nn.Dropout2d(), lambda: nn.ZeroPad2d((-1, 0, -1, 0))]
    return r.choice(ways)()


def of_volume(r, shape):
    c = shape[0]
    m = r.choice((2, 3))
    return r.choice((lambda: nn.Conv3d(c, m, (1, 3, 3), padding=(0, 1, 1)), lambda: nn.Conv3d(c, m, 2, padding=1), lambda: nn.BatchNorm3d(c),
                     lambda: nn.MaxPool3d(2, ceil_mode=True), lambda: nn.AvgPool3d(2, padding=1), lambda: Do(lambda x: x.flatten(2, 3)),
                     lambda: nn.ConvTranspose3d(c, m, 2, stride=2), lambda: nn.InstanceNorm3d(c), lambda: Do(lambda x: x.mean(2)),
                     lambda: nn.GroupNorm(1, c)))()


OWN_KIND = {1: of_vector, 2: of_sequence, 3: of_image, 4: of_volume}


def step(r, shape, depth):
    kind = r.random()
    if depth and kind < 0.08:
        body, after = chain(r, shape, r.randint(1, 3), 0)
        return Residual(body) if after == shape else body
    if depth and kind < 0.16:
        (a, one), (b, other) = chain(r, shape, r.randint(1, 2), 0), chain(r, shape, r.randint(1, 2), 0)
        axes = [i + 1 for i in range(len(one)) if len(one) == len(other) and one[:i] + one[i + 1:] == other[:i] + other[i + 1:]]
        return Join(a, b, r.choice(axes)) if axes else a
    if kind < 0.55 and len(shape) in OWN_KIND:
        return OWN_KIND[len(shape)](r, shape)
    return r.choice((lambda: r.choice(POINTWISE)(), lambda: mixed(r, shape), lambda: reduced(r, shape), lambda: along(r, shape),
                     lambda: moved(r, shape)))()


def chain(r, shape, count, depth):
    """Modules one after another, and the shape of a sample behind them."""
    modules = []
    while len(modules) < count:
        try:
            made = step(r, shape, depth).eval()
            after = made(torch.randn(2, *shape)).shape
        except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):  # it does not fit
            continue
        if after[0] == 2 and len(after) > 1 and 0 < int(np.prod(after)) <= 2 * MOST_ELEMENTS and len(after) < 6:
            modules.append(made)
            shape = list(after[1:])
    return nn.Sequential(*modules), shape


def network(seed):
    r = random.Random(seed)
    torch.manual_seed(seed)
    shape = r.choice(([7], [5, 6], [4, 8], [3, 8, 8], [4, 7, 6], [2, 9, 9], [2, 3, 6, 5]))
    model, _ = chain(r, shape, r.randint(2, 8), 1)
    # As after some training: PyTorch's exporter ties tensors that are equal.
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 1.5)
    return model.eval(), shape, r.choice((11, 12, 13, 14, 15, 16))


def gradients(model, x, cotangent):
    x = x.clone().requires_grad_(True)
    y = model(x)
    wrt = [x, *model.parameters()]
    found = torch.autograd.grad(y, wrt, cotangent, allow_unused=True)
    return y.detach(), [torch.zeros_like(p) if g is None else g for p, g in zip(wrt, found)]


def opened(shape):
    """Names of the axes of a batch of such samples but for channels, and a sample that is larger along them."""
    free = {2: (1, ), 3: (2, 3), 4: (2, 3, 4)}.get(len(shape), ())
    return {0: "batch", **{i: f"d{i}" for i in free}}, [n + 2 * (i + 1 in free) for i, n in enumerate(shape)]


def compare(model, shape, opset, folder, is_open):
    """"" where all agrees, or what does not."""
    axes, larger = opened(shape) if is_open else ({0: "batch"}, shape)
    x = torch.randn(COMPARED, *larger)
    with torch.no_grad():
        model(x)
    onnx_file, path = f"{folder}/model.onnx", f"{folder}/model.graft"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, torch.randn(EXPORTED, *shape), onnx_file, input_names=["x"], output_names=["y"],
                          dynamic_axes={"x": axes, "y": {0: "batch"}}, opset_version=opset,
                          training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
    try:
        graft("convert", onnx_file, "-o", path)
    except RuntimeError as refusal:
        raise Refused(str(refusal).strip().split("\n")[-1]) from refusal
    with torch.no_grad():
        cotangent = torch.randn_like(model(x))
    names = ["x", *(name for name, _ in model.named_parameters())]
    y32, g32 = gradients(model, x, cotangent)
    y, g = gradients(model.double(), x.double(), cotangent.double())
    model.float()
    np.save(f"{folder}/x.npy", x.numpy())
    np.save(f"{folder}/cotangent.npy", cotangent.numpy())
    graft("run", path, "--input", f"x={folder}/x.npy", "--out", f"{folder}/out")
    out = np.load(f"{folder}/out/y.npy")
    if out.shape != tuple(y.shape):
        return f"the output has the shape {out.shape} instead of {tuple(y.shape)}"
    distance = lambda a, b: float(torch.as_tensor(a).double().sub(b).norm() / max(float(b.norm()), 1e-9))
    if not distance(out, y) <= FORWARD + OWN * distance(y32, y):
        return f"forward is {distance(out, y):.1e} off (PyTorch in f32 {distance(y32, y):.1e})"
    with open(path, "rb") as file:
        known = file.read()
    # The rest is in no result, or only behind what has no gradient, as where the nearest is taken.
    there = [i for i, name in enumerate(names) if (name == "x" or name.encode() in known) and bool(g[i].any())]
    if not there:
        return ""
    graft("grad", path, "--input", f"x={folder}/x.npy", "--of", "y", "--cotangent", f"{folder}/cotangent.npy", "--wrt",
          ",".join(names[i] for i in there), "--out", f"{folder}/grad")
    largest = max(float(one.norm()) for one in g)
    for i in there:
        actual = torch.from_numpy(np.load(f"{folder}/grad/{parity.file_of(names[i])}")).double()
        if actual.shape != g[i].shape:
            return f"the gradient of {names[i]} has the shape {tuple(actual.shape)} instead of {tuple(g[i].shape)}"
        scale = max(float(g[i].norm()), 1e-3 * largest, 1e-4 * float(cotangent.norm()))  # it may be zero but for rounding
        off, own = float((actual - g[i]).norm()) / scale, float((g32[i].double() - g[i]).norm()) / scale
        if not off <= GRADIENT + OWN * own:
            return f"the gradient of {names[i]} is {off:.1e} off (PyTorch in f32 {own:.1e})"
    return ""


def train(model, x, target):
    """The same steps as graft takes: what all its tensors became."""
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        F.mse_loss(model(x), target).backward()
        optimizer.step()
    return {name: tensor.detach().double() for name, tensor in model.state_dict().items() if tensor.is_floating_point()}


def compare_training(model, shape, folder):
    """Some steps with batch norm as in training: how far each tensor moves. "" where all agree, or what does not."""
    if any(isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0 for m in model.modules()) or not list(model.parameters()):
        return ""
    before = {name: tensor.double() for name, tensor in copy.deepcopy(model).state_dict().items() if tensor.is_floating_point()}
    x = torch.randn(COMPARED, *shape)
    with torch.no_grad():
        target = torch.randn_like(model(x))
    for name, tensor in (("x", x), ("t", target)):
        np.save(f"{folder}/{name}.npy", np.concatenate([tensor.numpy()] * STEPS))
    in_f32 = train(copy.deepcopy(model).train(), x, target)
    wanted = train(copy.deepcopy(model).double().train(), x.double(), target.double())
    moved = {name: float((wanted[name] - before[name]).norm()) for name in wanted}
    largest = max(moved.values())
    if largest == 0:
        return ""
    # As far as the loss's own gradient would go: what should be zero is so but for rounding beside it.
    with torch.no_grad():
        rounding = RATE * STEPS * 2 * float((model(x) - target).norm()) / target.numel()
    graft("train", f"{folder}/model.graft", "--data", f"npy:x={folder}/x.npy;t={folder}/t.npy", "--loss", "mse", "--batch", COMPARED, "--steps",
          STEPS, "--no-shuffle", "--optimizer", "sgd", "--lr", RATE, "--quiet", "-o", f"{folder}/trained.graft")
    graft("export", f"{folder}/trained.graft", "-o", f"{folder}/trained.safetensors")
    got = read_safetensors(f"{folder}/trained.safetensors")
    for name in wanted:
        if name not in got:
            continue  # it is in no result
        scale = max(moved[name], 1e-3 * largest, 1e-3 * rounding, 1e-9)
        off = float((torch.from_numpy(got[name].copy()).double() - wanted[name]).norm()) / scale
        own = float((in_f32[name] - wanted[name]).norm()) / scale
        if not off <= TRAINED + OWN * own:
            return f"{name} is {off:.1e} of its way off after {STEPS} steps (PyTorch in f32 {own:.1e})"
    return ""


class Refused(Exception):
    pass


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    words = [word for word in sys.argv[2:] if word != "--open"]
    is_open = "--open" in sys.argv
    count, first = (int(word) for word in (words + ["100", "1"][len(words):])[:2])
    torch.set_num_threads(1)
    told = collections.Counter()
    for seed in range(first, first + count):
        model, shape, opset = network(seed)
        with tempfile.TemporaryDirectory() as folder:
            try:
                wrong = compare(model, shape, opset, folder, is_open) or (not is_open and compare_training(model, shape, folder)) or ""
            except Refused as refusal:
                told["refused"] += 1
                print(f"{seed}: refused: {refusal}", flush=True)
            except RuntimeError as failure:
                if str(failure).startswith("graft "):
                    told["wrong"] += 1
                    print(f"{seed}: FAILED: {failure}", flush=True)
                else:
                    told["not exported"] += 1
            except Exception as failure:  # of PyTorch's exporter, which raises all kinds
                told["not exported"] += 1
                print(f"{seed}: not exported: {type(failure).__name__}", flush=True)
            else:
                told["wrong" if wrong else "right"] += 1
                if wrong:
                    print(f"{seed} (opset {opset}, samples of {shape}): {wrong}\n{model}", flush=True)
    print(", ".join(f"{n} {what}" for what, n in told.items()))
    return 1 if told["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())

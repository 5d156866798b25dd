"""Spellings of activations, norms and softmax, each as a module of its own. See patterns.py."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from pattern import OPSETS, Pattern

BATCH, TOKENS, WIDTH = 2, 5, 12


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def pointwise(function, ops):
    ops = [ops] if isinstance(ops, str) else ops
    return lambda: Pattern(Function(function), [torch.randn(BATCH, TOKENS, WIDTH)], dict.fromkeys(ops, 1))


def module(make, op, shape=(BATCH, TOKENS, WIDTH), opsets=OPSETS):
    return lambda: Pattern(scattered(make()), [torch.randn(*shape)], {op: 1}, opsets)


def scattered(model):
    """Scales and shifts other than 1 and 0."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.uniform_(0.5, 1.5)
    return model


class LayerNorm(nn.Module):
    """By hand, as in many a repository. rsqrt: times the inverse root; square: a product in the place of a power."""

    def __init__(self, rsqrt=False, square=False):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(WIDTH)), nn.Parameter(torch.zeros(WIDTH))
        self.rsqrt, self.square = rsqrt, square

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        centred = x - mean
        variance = (centred * centred if self.square else centred.pow(2)).mean(-1, keepdim=True)
        if self.rsqrt:
            return self.weight * centred * torch.rsqrt(variance + 1e-6) + self.bias
        return self.weight * (centred / torch.sqrt(variance + 1e-6)) + self.bias


class ChannelsFirstLayerNorm(nn.Module):
    """ConvNeXt's: over the channels of [batch, channels, height, width]."""

    def __init__(self, channels):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


class PermutedLayerNorm(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x):
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class RmsNorm(nn.Module):
    """spelling: "rsqrt" (LLaMA), "multiplied" (x * x, not a power), "divided" (x / sqrt), "unit" (Gemma: 1 + weight)."""

    def __init__(self, spelling):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))
        self.spelling = spelling

    def forward(self, x):
        mean_square = x.pow(2).mean(-1, keepdim=True)
        if self.spelling == "rsqrt":
            return self.weight * (x * torch.rsqrt(mean_square + 1e-6))
        if self.spelling == "multiplied":
            return (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)).type_as(x) * self.weight
        if self.spelling == "unit":
            return x * torch.rsqrt(mean_square + 1e-6) * (1.0 + self.weight)
        return x / torch.sqrt(mean_square + 1e-6) * self.weight


class GroupNormByHand(nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.groups = groups
        self.weight, self.bias = nn.Parameter(torch.ones(1, channels, 1, 1)), nn.Parameter(torch.zeros(1, channels, 1, 1))

    def forward(self, x):
        n, c, h, w = x.shape
        x = x.reshape(n, self.groups, -1)
        mean = x.mean(-1, keepdim=True)
        variance = x.var(-1, unbiased=False, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + 1e-5)
        return x.reshape(n, c, h, w) * self.weight + self.bias


class BatchNormByHand(nn.Module):
    """With statistics that the module keeps. frozen: torchvision's FrozenBatchNorm2d, all of whose tensors are buffers."""

    def __init__(self, channels, frozen=False):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.rand(channels) + 0.5), nn.Parameter(torch.randn(channels))
        self.register_buffer("running_mean", torch.randn(channels))
        self.register_buffer("running_var", torch.rand(channels) + 0.5)
        self.frozen = frozen

    def forward(self, x):
        w, b, mean, var = (t.view(1, -1, 1, 1) for t in (self.weight, self.bias, self.running_mean, self.running_var))
        if self.frozen:
            scale = w * (var + 1e-5).rsqrt()
            return x * scale + (b - mean * scale)
        return (x - mean) / torch.sqrt(var + 1e-5) * w + b


class ConvBatchNorm(nn.Module):
    """In eval mode the exporter folds the batch norm itself; kept apart, that is graft's to do, for inference."""

    def __init__(self, conv, norm):
        super().__init__()
        self.conv, self.norm = conv, norm
        with torch.no_grad():
            norm.running_mean.normal_(0, 0.3)
            norm.running_var.uniform_(0.5, 2)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


def gelu_erf(x):
    return x * 0.5 * (1.0 + torch.erf(x / math.sqrt(2.0)))


def gelu_tanh(x):
    """GPT-2's."""
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


def gelu_tanh_products(x):
    """Megatron's."""
    return x * 0.5 * (1.0 + torch.tanh(0.79788456 * x * (1 + 0.044715 * x * x)))


def softmax_by_hand(x):
    powers = torch.exp(x - x.max(dim=-1, keepdim=True)[0])
    return powers / powers.sum(dim=-1, keepdim=True)


IMAGE = (BATCH, WIDTH, 5, 7)

PATTERNS = {
    # activations
    "gelu": module(nn.GELU, "gelu"),
    "gelu_by_hand": pointwise(gelu_erf, "gelu"),
    "gelu_multiplied": pointwise(lambda x: 0.5 * x * (1 + torch.erf(x * 0.7071067811865476)), "gelu"),
    "gelu_normal_cdf": pointwise(lambda x: x * (0.5 * (1 + torch.erf(x / 1.4142135623730951))), "gelu"),
    "gelu_tanh": module(lambda: nn.GELU(approximate="tanh"), "gelu"),
    "gelu_tanh_by_hand": pointwise(gelu_tanh, "gelu"),
    "gelu_tanh_products": pointwise(gelu_tanh_products, "gelu"),
    "silu": module(nn.SiLU, "silu"),
    "silu_by_hand": pointwise(lambda x: torch.sigmoid(x) * x, "silu"),
    "silu_divided": pointwise(lambda x: x / (1 + torch.exp(-x)), "silu"),
    "hard_swish": module(nn.Hardswish, "hard_swish"),
    "hard_swish_relu6": pointwise(lambda x: x * F.relu6(x + 3) / 6, "hard_swish"),
    "hard_swish_relu6_first": pointwise(lambda x: x * (F.relu6(x + 3) / 6), "hard_swish"),
    "hard_swish_sixth": pointwise(lambda x: x * (F.relu6(x + 3.0) * (1.0 / 6.0)), "hard_swish"),
    "hard_swish_hard_sigmoid": pointwise(lambda x: x * F.hardsigmoid(x), "hard_swish"),
    "hard_sigmoid": module(nn.Hardsigmoid, "hard_sigmoid"),
    "hard_sigmoid_relu6": pointwise(lambda x: F.relu6(x + 3) / 6, "hard_sigmoid"),
    "mish": module(nn.Mish, "mish"),
    "mish_by_hand": pointwise(lambda x: x * torch.tanh(F.softplus(x)), "mish"),
    "mish_logarithm": pointwise(lambda x: x * torch.tanh(torch.log(1 + torch.exp(x))), "mish"),
    "softplus": module(nn.Softplus, "softplus"),
    "softplus_logarithm": pointwise(lambda x: torch.log(1 + torch.exp(x)), "softplus"),
    "relu6": module(nn.ReLU6, "clip"),
    # norms
    "layer_norm": module(lambda: nn.LayerNorm(WIDTH), "layer_norm"),
    # At opset 17 PyTorch's own checker refuses what its exporter writes of this one.
    "layer_norm_plain": module(lambda: nn.LayerNorm(WIDTH, elementwise_affine=False), "layer_norm", opsets=OPSETS[:-1]),
    "layer_norm_two_axes": module(lambda: nn.LayerNorm((TOKENS, WIDTH)), "layer_norm"),
    "layer_norm_by_hand": module(LayerNorm, "layer_norm"),
    "layer_norm_rsqrt": module(lambda: LayerNorm(rsqrt=True), "layer_norm"),
    "layer_norm_square": module(lambda: LayerNorm(square=True), "layer_norm"),
    "layer_norm_channels_first": module(lambda: ChannelsFirstLayerNorm(WIDTH), "layer_norm", IMAGE),
    "layer_norm_permuted": module(lambda: PermutedLayerNorm(WIDTH), "layer_norm", IMAGE),
    "rms_norm": module(lambda: RmsNorm("rsqrt"), "rms_norm"),
    "rms_norm_multiplied": module(lambda: RmsNorm("multiplied"), "rms_norm"),
    "rms_norm_divided": module(lambda: RmsNorm("divided"), "rms_norm"),
    "rms_norm_unit": module(lambda: RmsNorm("unit"), "rms_norm"),
    "group_norm": module(lambda: nn.GroupNorm(3, WIDTH), "group_norm", IMAGE),
    "group_norm_1d": module(lambda: nn.GroupNorm(3, WIDTH), "group_norm", (BATCH, WIDTH, 7)),
    "group_norm_plain": module(lambda: nn.GroupNorm(3, WIDTH, affine=False), "group_norm", IMAGE),
    "group_norm_by_hand": module(lambda: GroupNormByHand(3, WIDTH), "group_norm", IMAGE),
    "instance_norm": module(lambda: nn.InstanceNorm2d(WIDTH, affine=True), "group_norm", IMAGE),
    "instance_norm_plain": module(lambda: nn.InstanceNorm2d(WIDTH), "group_norm", IMAGE),
    "batch_norm_folded": lambda: Pattern(
        ConvBatchNorm(nn.Conv2d(WIDTH, 6, 3, bias=False), nn.BatchNorm2d(6)), [torch.randn(*IMAGE)], {"conv": 1, "relu": 1},
        trained=6 * WIDTH * 9 + 6),
    # The exporter folds what is constant of both: elementwise nodes by channel are left, one node after fusion.
    "batch_norm_by_hand": lambda: Pattern(BatchNormByHand(WIDTH), [torch.randn(*IMAGE)],
                                          {"sub": 1, "div": 1, "mul": 1, "add": 1}),
    "batch_norm_frozen": lambda: Pattern(BatchNormByHand(WIDTH, frozen=True), [torch.randn(*IMAGE)], {"mul": 1, "add": 1},
                                         trained=0),
    # F.normalize: x / max(norm, eps) with the norm expanded to x's shape, as written: no op of graft has that limit. A
    # norm of vectors of n elements without one is an RMS norm divided by sqrt(n).
    "l2_normalize": pointwise(lambda x: F.normalize(x, dim=-1), ["reduce_l2", "clip", "div"]),
    "l2_normalize_by_hand": pointwise(lambda x: x / x.norm(dim=-1, keepdim=True), ["rms_norm", "affine"]),
    "l2_normalize_squares": pointwise(lambda x: x / torch.sqrt((x * x).sum(-1, keepdim=True) + 1e-12),
                                      ["rms_norm", "affine"]),
    "l2_normalize_rsqrt": pointwise(lambda x: x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + 1e-12),
                                    ["rms_norm", "affine"]),
    # softmax
    "softmax_by_hand": pointwise(softmax_by_hand, "softmax"),
    "softmax_without_max": pointwise(lambda x: torch.exp(x) / torch.exp(x).sum(-1, keepdim=True), "softmax"),
    "softmax_middle_axis": pointwise(lambda x: torch.softmax(x, 1), "softmax"),
    "log_softmax_by_hand": pointwise(lambda x: x - torch.logsumexp(x, -1, keepdim=True), "log_softmax"),
    "log_of_softmax": pointwise(lambda x: torch.log(torch.softmax(x, -1)), "log_softmax"),
    # linear + bias, whatever the rank
    "linear": lambda: Pattern(nn.Linear(WIDTH, 8), [torch.randn(3, WIDTH)], {"matmul": 1}),
    "linear_rank_3": lambda: Pattern(nn.Linear(WIDTH, 8), [torch.randn(BATCH, TOKENS, WIDTH)], {"matmul": 1}),
    # moves
    "transpose_pair": lambda: Pattern(Function(lambda x: x.permute(0, 2, 3, 1).exp().permute(0, 3, 1, 2)),
                                      [torch.randn(*IMAGE)], {"exp": 1}),
    "reshape_chain": lambda: Pattern(Function(lambda x: x.flatten(2).unsqueeze(1).squeeze(1).reshape(x.shape).exp()),
                                     [torch.randn(*IMAGE)], {"exp": 1}),
    "constant_arithmetic": pointwise(lambda x: (x * 2 + 1) * 3 - 5 + torch.arange(4.0).sum() / 2, "affine"),
}

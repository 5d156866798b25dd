"""Networks of plain torch modules for parity.py: each entry makes a model and its inputs (batch first)."""

import torch
from torch import nn


def scatter_affine(model):
    """Norm weights and biases other than 1 and 0: worth testing, and torch exports equal initial tensors as one."""
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, nn.LayerNorm, nn.GroupNorm, nn.InstanceNorm2d)):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.2)
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d)):
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2)
    return model


def mlp():
    model = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 24), nn.GELU(), nn.Linear(24, 10))
    return model, [torch.randn(5, 20)]


def strided_cnn():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=2, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 12, 3, stride=(2, 1), padding=(1, 0)), nn.LeakyReLU(0.1), nn.Flatten(), nn.Linear(12 * 2 * 2, 10))
    return model, [torch.randn(4, 3, 16, 16)]


def dilated_cnn():
    model = nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=2, dilation=2), nn.SiLU(), nn.Conv2d(6, 8, (1, 3), dilation=(1, 3), groups=2),
        nn.ELU(), nn.AvgPool2d(2, ceil_mode=True, count_include_pad=False), nn.Conv2d(8, 4, 1), nn.Sigmoid(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return model, [torch.randn(3, 2, 13, 13)]


class DepthwiseBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.pointwise = nn.Conv2d(channels, channels, 1)
        self.norm2 = nn.BatchNorm2d(channels)
        self.act = nn.Hardswish()

    def forward(self, x):
        y = self.act(self.norm1(self.depthwise(x)))
        return torch.relu(x + self.norm2(self.pointwise(y)))


def depthwise_residual():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU6(), DepthwiseBlock(8),
                          DepthwiseBlock(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    return scatter_affine(model), [torch.randn(6, 3, 8, 8)]


def fresh_batch_norm():
    """Scales, biases and statistics as PyTorch starts them: its exporter merges the equal ones."""
    model = nn.Sequential(nn.Conv2d(2, 6, 3, bias=False), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3, bias=False),
                          nn.BatchNorm2d(6, momentum=0.3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 4 * 4, 10))
    return model, [torch.randn(3, 2, 8, 8)]


def transposed_conv():
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.Softplus(),
        nn.ConvTranspose2d(8, 6, 4, stride=2, padding=1), nn.Mish(),
        nn.ConvTranspose2d(6, 4, 3, stride=2, padding=1, output_padding=1, groups=2), nn.PReLU(4),
        nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), nn.Conv2d(4, 1, 3, padding=1))
    return model, [torch.randn(2, 3, 8, 8)]


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        batch, tokens, dim = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, dim // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        weights = torch.softmax(q @ k.transpose(-2, -1) * (dim // self.heads) ** -0.5, dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, dim))


class VisionTransformer(nn.Module):
    def __init__(self, dim=24, heads=3, depth=2, patch=4, size=16):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, stride=patch)
        self.token = nn.Parameter(torch.randn(1, 1, dim) * 0.1)
        self.position = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, dim) * 0.1)
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * depth + 1))
        self.attention = nn.ModuleList(Attention(dim, heads) for _ in range(depth))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)) for _ in range(depth))
        self.head = nn.Linear(dim, 10)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        for i, (attention, mlp) in enumerate(zip(self.attention, self.mlp)):
            x = x + attention(self.norms[2 * i](x))
            x = x + mlp(self.norms[2 * i + 1](x))
        return self.head(self.norms[-1](x)[:, 0])


def vit():
    return scatter_affine(VisionTransformer()), [torch.randn(2, 3, 16, 16)]


def group_norm():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.GroupNorm(4, 8), nn.ReLU(), nn.Conv2d(8, 6, 3, padding=1),
                          nn.InstanceNorm2d(6, affine=True), nn.Tanh(), nn.AdaptiveMaxPool2d(1), nn.Flatten(),
                          nn.Linear(6, 4))
    return scatter_affine(model), [torch.randn(3, 3, 9, 9)]


NETWORKS = {f.__name__: f for f in (mlp, strided_cnn, dilated_cnn, depthwise_residual, fresh_batch_norm,
                                     transposed_conv, vit, group_norm)}

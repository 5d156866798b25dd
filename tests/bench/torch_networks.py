"""The networks that torch_rivals.py trains, as PyTorch's modules, and images for them."""

import torch
from torch import nn
from torch.nn import functional as F

IMAGES = {"lenet": (1, 28, 10), "resnet18": (3, 224, 1000)}  # channels, side, classes


def attend(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    mask = torch.full((q.shape[-2], k.shape[-2]), float("-inf"), device=q.device).triu(1)
    return F.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + mask, -1) @ v


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.a = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.b = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm_a, self.norm_b = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.short = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.short = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.norm_a(self.a(x)))
        return F.relu(self.norm_b(self.b(y)) + self.short(x))


def resnet18():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for outputs, stride in ((64, 1), (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), (512, 1)):
        layers.append(Block(width, outputs, stride))
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


class Decoder(nn.Module):
    """SmolLM2-135M's shape; rank > 0: only adapters on q, k, v and o learn."""

    def __init__(self, rank, layers=30, dim=576, hidden=1536, heads=9, kv_heads=3, vocab=49152):
        super().__init__()
        self.heads, self.kv_heads, self.head = heads, kv_heads, dim // heads
        self.embed = nn.Embedding(vocab, dim)
        kv = kv_heads * self.head
        shapes = {"q": (dim, dim), "k": (dim, kv), "v": (dim, kv), "o": (dim, dim), "gate": (dim, hidden),
                  "up": (dim, hidden), "down": (hidden, dim)}
        self.blocks = nn.ModuleList(nn.ModuleDict({n: nn.Linear(*s, bias=False) for n, s in shapes.items()})
                                    for _ in range(layers))
        self.norms = nn.ParameterList(nn.Parameter(torch.ones(dim)) for _ in range(2 * layers + 1))
        self.adapters = nn.ModuleList()
        if rank:
            self.requires_grad_(False)
            self.adapters.extend(
                nn.ModuleDict({n: nn.Sequential(nn.Linear(shapes[n][0], rank, bias=False),
                                                nn.Linear(rank, shapes[n][1], bias=False)) for n in "qkvo"})
                for _ in range(layers))

    def linear(self, i, name, x):
        y = self.blocks[i][name](x)
        return y + 2 * self.adapters[i][name](x) if len(self.adapters) and name in "qkvo" else y

    def rotate(self, x):
        half = self.head // 2
        angle = torch.outer(torch.arange(x.shape[2], device=x.device),
                            100000.0 ** (-torch.arange(half, device=x.device) / half))
        a, b = x[..., :half], x[..., half:]
        return torch.cat((a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()), -1)

    def norm(self, i, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.norms[i]

    def forward(self, tokens):
        x = self.embed(tokens)
        batch, seq, _ = x.shape

        def split(y, heads):
            return y.view(batch, seq, heads, self.head).transpose(1, 2)

        for i in range(len(self.blocks)):
            h = self.norm(2 * i, x)
            q = self.rotate(split(self.linear(i, "q", h), self.heads))
            k = self.rotate(split(self.linear(i, "k", h), self.kv_heads))
            v = split(self.linear(i, "v", h), self.kv_heads)
            k, v = (t.repeat_interleave(self.heads // self.kv_heads, 1) for t in (k, v))
            y = attend(q, k, v)
            x = x + self.linear(i, "o", y.transpose(1, 2).reshape(batch, seq, -1))
            h = self.norm(2 * i + 1, x)
            x = x + self.linear(i, "down", F.silu(self.linear(i, "gate", h)) * self.linear(i, "up", h))
        return F.linear(self.norm(-1, x), self.embed.weight)


def write_images(name, count, folder):
    import numpy as np
    channels, size, classes = IMAGES[name]
    generator = np.random.default_rng(1)
    np.save(f"{folder}/x.npy", generator.random((count, channels, size, size), dtype=np.float32))
    np.save(f"{folder}/y.npy", generator.integers(classes, size=count).astype(np.int32))

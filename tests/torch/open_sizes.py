"""Networks whose length, height and width stay open, as PyTorch's exporter writes what people do with sizes: each is exported with
one size, converted once, and compared at another, forward and in the gradients of every parameter and of the input.

    open_sizes.py GRAFT [NETWORK ...]     (run with a Python that has torch and onnx)

Exit status: 0 all agree, 1 some do not, 77 torch or onnx is not installed. random_networks.py --open puts such networks together.
"""

import os
import sys
import tempfile

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import parity
from random_networks import Do, First, Refused, compare

OPSET = 17


class Made(nn.Module):
    """Layers by name, and what is done with them and the input."""

    def __init__(self, function, **layers):
        super().__init__()
        for name, layer in layers.items():
            setattr(self, name, layer)
        self.function = function

    def forward(self, x):
        return self.function(self, x)


def linear(width=8):
    return nn.Linear(width, width)


def causal(m, x):
    t = x.shape[1]
    scores = m.q(x) @ m.k(x).transpose(1, 2) / x.shape[2] ** 0.5
    return scores.masked_fill(torch.ones(t, t).tril() == 0, float("-inf")).softmax(-1) @ m.v(x)


def relative(m, x):
    at = torch.arange(x.shape[1])
    bias = m.bias((at[:, None] - at[None, :]).clamp(-8, 8) + 8).squeeze(-1)
    return (m.q(x) @ x.transpose(1, 2) + bias).softmax(-1) @ m.v(x)


def sines(m, x):
    at, rates = torch.arange(x.shape[1], dtype=torch.float32), torch.exp(torch.arange(x.shape[2], dtype=torch.float32) * -0.3)
    return m.layer(x + torch.sin(at[:, None] * rates))


def class_token(m, x):
    x = torch.cat((m.token.expand(x.shape[0], -1, -1), x), 1)
    return m.layer(x + m.positions[:, :x.shape[1]])[:, 0]


def detection_grid(m, x):
    y = m.head(x)
    h, w = y.shape[2:]
    rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    return torch.cat(((y[:, :2].sigmoid() + torch.stack((columns, rows)).float()) * 0.1, y[:, 2:]), 1).flatten(2)


def coordinates(m, x):
    b, _, h, w = x.shape
    rows = torch.linspace(-1, 1, h)[None, None, :, None].expand(b, 1, h, w)
    columns = torch.linspace(-1, 1, w)[None, None, None, :].expand(b, 1, h, w)
    return m.head(torch.cat((x, rows, columns), 1))


def windows(m, x):
    """As Swin: padded to whole windows, which a layer sees one by one."""
    x = x.permute(0, 2, 3, 1)
    b, h, w, c = x.shape
    x = F.pad(x, (0, 0, 0, (4 - w % 4) % 4, 0, (4 - h % 4) % 4))
    _, high, wide, _ = x.shape
    y = x.view(b, high // 4, 4, wide // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
    y = m.layer(y @ y.transpose(1, 2) @ y * 0.1)
    return y.view(b, high // 4, wide // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, high, wide, c)[:, :h, :w]


def blocks(m, x):
    b, c, h, w = x.shape
    return m.layer(x.view(b, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(b, h // 2, w // 2, 4 * c))


def padded_up(m, x):
    """U-Net's way up: what comes back is padded to the size that it had."""
    y = m.up(F.max_pool2d(m.down(x), 2))
    rows, columns = x.shape[2] - y.shape[2], x.shape[3] - y.shape[3]
    return m.head(torch.cat((x, F.pad(y, [columns // 2, columns - columns // 2, rows // 2, rows - rows // 2])), 1))


def resized_up(m, x):
    y = F.interpolate(m.down(x), size=x.shape[2:], mode="bilinear", align_corners=False)
    return m.head(torch.cat((x, y), 1))


def resized_table(m, x):
    """As ViT: a table of positions is resized to the patches that there are."""
    y = m.patches(x)
    return (y + F.interpolate(m.table, size=y.shape[2:], mode="bicubic", align_corners=False)).flatten(2).transpose(1, 2)


def rows_apart(m, x):
    b, c, h, w = x.shape
    y = m.layer(x.permute(0, 2, 3, 1).reshape(b * h, w, c))
    return ((y @ y.transpose(1, 2)).softmax(-1) @ y).reshape(b, h, w, c).permute(0, 3, 1, 2)


def pairs(m, x):
    t = x.shape[1]
    return m.layer(x[:, :, None].expand(-1, -1, t, -1) - x[:, None].expand(-1, t, -1, -1)).tanh().mean(2)


def decays(m, x):
    rates = m.rates[:, None] ** torch.arange(x.shape[1])
    return (m.layer(x).transpose(1, 2) * rates).cumsum(-1).transpose(1, 2)


def after(layer, function):
    return nn.Sequential(layer, Do(function))


VOLUMES = [nn.Conv3d(2, 4, 3, 2, 1), nn.BatchNorm3d(4), nn.ReLU(), nn.ConvTranspose3d(4, 2, 2, 2), nn.AvgPool3d(3, 2, 1), nn.MaxPool3d(2, 1)]

# The network and the shape of a sample when it is exported.
NETWORKS = {
    "positions by a table": (lambda: Made(lambda m, x: m.layer(x + m.table(torch.arange(x.shape[1]))), layer=linear(), table=nn.Embedding(40, 8)), [5, 8]),
    "causal attention": (lambda: Made(causal, q=linear(), k=linear(), v=linear()), [5, 8]),
    "relative positions": (lambda: Made(relative, q=linear(), v=linear(), bias=nn.Embedding(17, 1)), [5, 8]),
    "sines of positions": (lambda: Made(sines, layer=linear()), [5, 8]),
    "class token": (lambda: Made(class_token, token=nn.Parameter(torch.randn(1, 1, 8)), positions=nn.Parameter(torch.randn(1, 20, 8)),
                                 layer=nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)), [5, 8]),
    "all pairs": (lambda: Made(pairs, layer=linear(6)), [5, 6]),
    "decays": (lambda: Made(decays, layer=linear(6), rates=nn.Parameter(torch.rand(6) + 0.1)), [5, 6]),
    "both ways, the last step": (lambda: after(First(nn.LSTM(6, 4, batch_first=True, bidirectional=True)), lambda x: x[:, -1]), [5, 6]),
    "mean by the length": (lambda: after(linear(6), lambda x: x.sum(1) / x.shape[1]), [5, 6]),
    "turned around": (lambda: after(linear(6), lambda x: x.flip(1) * 0.5 + x), [5, 6]),
    "rolled": (lambda: after(linear(6), lambda x: torch.roll(x, 1, 1) + torch.roll(x, -2, 1)), [5, 6]),
    "halves": (lambda: after(linear(6), lambda x: torch.cat(x.chunk(2, 1)[::-1], 1)), [6, 6]),
    "chunks of two": (lambda: nn.Sequential(Do(lambda x: x.reshape(x.shape[0], x.shape[1] // 2, 12)), nn.Linear(12, 4)), [4, 6]),
    "the two largest": (lambda: after(linear(6), lambda x: x.topk(2, 1)[0]), [5, 6]),
    "detection grid": (lambda: Made(detection_grid, head=nn.Conv2d(3, 4, 1)), [3, 6, 8]),
    "coordinates": (lambda: Made(coordinates, head=nn.Conv2d(5, 4, 3, padding=1)), [3, 6, 8]),
    "windows": (lambda: Made(windows, layer=linear(4)), [4, 6, 7]),
    "blocks": (lambda: Made(blocks, layer=linear(12)), [3, 6, 8]),
    "padded up": (lambda: Made(padded_up, down=nn.Conv2d(3, 4, 3, padding=1), up=nn.ConvTranspose2d(4, 2, 2, 2),
                               head=nn.Conv2d(5, 2, 3, padding=1)), [3, 7, 6]),
    "resized up": (lambda: Made(resized_up, down=nn.Conv2d(3, 4, 3, 2, 1), head=nn.Conv2d(7, 2, 3, padding=1)), [3, 7, 6]),
    "resized table": (lambda: Made(resized_table, patches=nn.Conv2d(3, 6, 2, 2), table=nn.Parameter(torch.randn(1, 6, 4, 4))), [3, 8, 8]),
    "rows apart": (lambda: Made(rows_apart, layer=linear(4)), [4, 5, 6]),
    "unfolded": (lambda: nn.Sequential(nn.Conv2d(2, 3, 1), nn.Unfold(3, padding=1)), [2, 6, 5]),
    "bicubic": (lambda: nn.Sequential(nn.Conv2d(2, 3, 1), nn.Upsample(scale_factor=2, mode="bicubic")), [2, 6, 5]),
    "trilinear": (lambda: nn.Sequential(nn.Conv3d(2, 3, 1), nn.Upsample(scale_factor=2, mode="trilinear")), [2, 3, 5, 4]),
    "shuffled": (lambda: nn.Sequential(nn.PixelUnshuffle(2), nn.Conv2d(8, 8, 1), nn.PixelShuffle(2)), [2, 6, 4]),
    "volumes": (lambda: nn.Sequential(*VOLUMES), [2, 5, 7, 6]),
}


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    torch.set_num_threads(1)
    failures = 0
    for name in sys.argv[2:] or NETWORKS:
        make, shape = NETWORKS[name]
        torch.manual_seed(sum(map(ord, name)))
        model = make()
        with torch.no_grad():  # PyTorch's exporter ties tensors that are equal
            for parameter in model.parameters():
                parameter += 0.05 * torch.randn_like(parameter)
        with tempfile.TemporaryDirectory() as folder:
            try:
                wrong = compare(model.eval(), shape, OPSET, folder, True)
            except (Refused, RuntimeError) as problem:
                wrong = str(problem)
        failures += bool(wrong)
        print(f"{name:28} {wrong or 'ok'}", flush=True)
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()

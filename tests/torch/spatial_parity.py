"""Volumes, sampled images and pooling, forward and gradients, against PyTorch.

Usage: spatial_parity.py GRAFT [CASE ...]     (GRAFT: the command line tool; run with a Python that has torch and onnx)

Exit status: 0 all agree, 1 some do not, 77 torch is not installed.
"""

import os
import sys

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import parity

SMALL = (2, 4, 6, 7)
VOLUME = (2, 4, 5, 6, 7)


class Function(nn.Module):
    """A function behind a layer, so that there are parameters too."""

    def __init__(self, layer, function):
        super().__init__()
        self.layer, self.function = layer, function

    def forward(self, *inputs):
        return self.function(self.layer(inputs[0]), *inputs[1:])


def of(layer, shape=SMALL):
    return lambda: (layer(), [torch.randn(*shape)])


def behind(function, shape=SMALL, *more):
    """Of a convolution's result; `more` makes further inputs."""
    make = nn.Conv2d if len(shape) == 4 else nn.Conv3d
    return lambda: (Function(make(shape[1], shape[1], 1), function), [torch.randn(*shape), *[one() for one in more]])


def grid(*shape):
    # Off the middles between pixels and off the pixels, where gradients jump.
    return lambda: torch.rand(*shape) * 2.4 - 1.2


def on_edges(*places):
    """Grids of positions on the outermost pixels and beyond, each with each, exactly as f32 has them."""
    def make():
        g = torch.tensor(places)
        y, x = torch.meshgrid(g, g, indexing="ij")
        return torch.stack((x, y), -1).repeat(2, 1, 1, 1)
    return make


def resized(mode, size, **options):
    return behind(lambda x: F.interpolate(x, size=size, mode=mode, **options))


def sampled(mode, padding, corners, shape=SMALL, where=None):
    return behind(lambda x, g: F.grid_sample(x, g, mode, padding, corners), shape, where or grid(2, 3, 5, 2))


def sampled_on_edges(padding, corners):
    # Of 8 pixels the outermost ones lie at +-1 with corners, else at +-0.875; 0.3 is between two.
    where = on_edges(-1.0, -1.125, 1.0, 0.3, 3.0) if corners else on_edges(-0.875, -1.0, 0.875, 0.3, 1.0, -3.0)
    return sampled("bilinear", padding, corners, (2, 4, 8, 8), where)


CASES = {
    "conv 3d": of(lambda: nn.Conv3d(4, 6, (3, 2, 3), (2, 1, 1), (1, 0, 2), bias=True), VOLUME),
    "conv 3d, groups": of(lambda: nn.Conv3d(4, 8, 3, 1, 2, 2, 2), VOLUME),
    "conv transpose 3d": of(lambda: nn.ConvTranspose3d(4, 6, 3, 2, 1, 1), VOLUME),
    "conv transpose 3d, groups": of(lambda: nn.ConvTranspose3d(4, 8, (2, 3, 3), (3, 2, 1), 0, 0, 2), VOLUME),
    "max pool 3d": behind(lambda x: F.max_pool3d(x, 3, 2, 1), VOLUME),
    "average pool 3d": behind(lambda x: F.avg_pool3d(x, 3, 2, 1, True, False), VOLUME),
    "bicubic": resized("bicubic", (9, 11), align_corners=False),
    "trilinear": behind(lambda x: F.interpolate(x, size=(8, 9, 5), mode="trilinear", align_corners=False), VOLUME),
    "grid sample": sampled("bilinear", "zeros", False),
    "grid sample, border": sampled("bilinear", "border", True),
    "grid sample, reflection": sampled("bilinear", "reflection", False),
    "grid sample, on the border": sampled_on_edges("border", False),
    "grid sample, on the border's corners": sampled_on_edges("border", True),
    "grid sample, on reflecting edges": sampled_on_edges("reflection", False),
    "grid sample, on reflecting corners": sampled_on_edges("reflection", True),
    "grid sample, bicubic": sampled("bicubic", "zeros", False),
    "grid sample, bicubic, border": sampled("bicubic", "border", False),
    "grid sample, bicubic, reflection": sampled("bicubic", "reflection", True),
    "local response norm": behind(lambda x: nn.LocalResponseNorm(3)(x)),
    "lp pool": behind(lambda x: F.lp_pool2d(x, 2, 3, 2)),
}


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    torch.set_num_threads(1)
    report = parity.Report()
    for name, make in CASES.items():
        if not sys.argv[2:] or name in sys.argv[2:]:
            parity.check_gradients(report, name, make, train_mode=False, opset=16)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())

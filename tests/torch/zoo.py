"""Networks that people train, in plain torch, as PyTorch's exporter writes them: what graft meets in the wild.

Usage: zoo.py GRAFT [NETWORK ...]             converts and runs each, trains it for some steps, and compares with PyTorch
       zoo.py --write FOLDER [NETWORK ...]    writes FOLDER/NETWORK.onnx and inputs as FOLDER/NETWORK.input<i>.npy

Weights are random and untrained; widths and depths are those of the networks that they are named after, or a stated part of
them, so that a training step on two CPU cores takes seconds. The batch is a named dimension of every file.
"""

import collections
import json
import math
import os
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy as np
    import torch
    from torch import nn
    from torch.nn import functional as F

    from kinds import read_safetensors
    from networks import scatter_affine
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

# f32 on both sides, other orders of summation: room for some hundred roundings in a row, as in parity.py.
FORWARD_TOLERANCE = 1e-4
# Differences grow from step to step while two trainings drift apart.
LOSS_TOLERANCE = 2e-3
RATE = 0.05

# make: the module and one input per argument, batch first. opset: as its users export it. batch: of a training step here; 0
# where the command line cannot train it (its data sets have one input). steps, tolerance: of the losses compared with PyTorch's.
# rate: of SGD.
Entry = collections.namedtuple("Entry", "make opset batch steps tolerance rate", defaults=(3, LOSS_TOLERANCE, RATE))


def conv_norm(from_, to, size=3, stride=1, groups=1, activation=None):
    layers = [nn.Conv2d(from_, to, size, stride, size // 2, groups=groups, bias=False), nn.BatchNorm2d(to)]
    return nn.Sequential(*layers, *([activation()] if activation else []))


class SqueezeExcite(nn.Module):
    def __init__(self, channels, inner, activation, gate):
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(channels, inner, 1), nn.Conv2d(inner, channels, 1)
        self.activation, self.gate = activation(), gate()

    def forward(self, x):
        return x * self.gate(self.expand(self.activation(self.reduce(x.mean((2, 3), keepdim=True)))))


class InvertedResidual(nn.Module):
    """Expand, depthwise, project (Sandler et al. 2018), with squeeze and excite where `inner` is given."""

    def __init__(self, from_, to, stride, expand, activation, size=3, inner=0, gate=nn.Hardsigmoid):
        super().__init__()
        wide = int(from_ * expand)
        layers = [conv_norm(from_, wide, 1, activation=activation)] if wide != from_ else []
        layers.append(conv_norm(wide, wide, size, stride, wide, activation))
        if inner:
            layers.append(SqueezeExcite(wide, inner, nn.ReLU if gate is nn.Hardsigmoid else activation, gate))
        self.layers = nn.Sequential(*layers, conv_norm(wide, to, 1))
        self.skip = stride == 1 and from_ == to

    def forward(self, x):
        return x + self.layers(x) if self.skip else self.layers(x)


def classifier(channels, classes, *hidden):
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), *hidden, nn.Linear(channels, classes))


def mobilenet_v2():
    """The whole network at 96 pixels."""
    layers, from_ = [conv_norm(3, 32, stride=2, activation=nn.ReLU6)], 32
    for expand, to, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                      (6, 160, 3, 2), (6, 320, 1, 1)):
        for i in range(count):
            layers.append(InvertedResidual(from_, to, stride if i == 0 else 1, expand, nn.ReLU6))
            from_ = to
    layers += [conv_norm(320, 1280, 1, activation=nn.ReLU6), classifier(1280, 1000, nn.Dropout(0.2))]
    return nn.Sequential(*layers), [torch.randn(1, 3, 96, 96)]


def mobilenet_v3():
    """The small one, whole, at 96 pixels."""
    rows = ((3, 16, 16, True, nn.ReLU, 2), (3, 72, 24, False, nn.ReLU, 2), (3, 88, 24, False, nn.ReLU, 1),
            (5, 96, 40, True, nn.Hardswish, 2), (5, 240, 40, True, nn.Hardswish, 1), (5, 240, 40, True, nn.Hardswish, 1),
            (5, 120, 48, True, nn.Hardswish, 1), (5, 144, 48, True, nn.Hardswish, 1), (5, 288, 96, True, nn.Hardswish, 2),
            (5, 576, 96, True, nn.Hardswish, 1), (5, 576, 96, True, nn.Hardswish, 1))
    layers, from_ = [conv_norm(3, 16, stride=2, activation=nn.Hardswish)], 16
    for size, wide, to, squeeze, activation, stride in rows:
        inner = max(8, (wide // 4 + 4) // 8 * 8) if squeeze else 0
        layers.append(InvertedResidual(from_, to, stride, wide / from_, activation, size, inner))
        from_ = to
    layers += [conv_norm(96, 576, 1, activation=nn.Hardswish),
               classifier(1024, 1000, nn.Linear(576, 1024), nn.Hardswish(), nn.Dropout(0.2))]
    return nn.Sequential(*layers), [torch.randn(1, 3, 96, 96)]


def efficientnet():
    """B0, whole, at 96 pixels."""
    layers, from_ = [conv_norm(3, 32, stride=2, activation=nn.SiLU)], 32
    for expand, to, count, stride, size in ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
                                            (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)):
        for i in range(count):
            layers.append(InvertedResidual(from_, to, stride if i == 0 else 1, expand, nn.SiLU, size, max(1, from_ // 4),
                                           nn.Sigmoid))
            from_ = to
    layers += [conv_norm(320, 1280, 1, activation=nn.SiLU), classifier(1280, 1000, nn.Dropout(0.2))]
    return nn.Sequential(*layers), [torch.randn(1, 3, 96, 96)]


class ChannelNorm(nn.LayerNorm):
    """Over the channels of an image."""

    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNextBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.rand(width) * 0.2)

    def forward(self, x):
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(F.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


def convnext():
    """Atto: 40 to 320 channels, 2 2 6 2 blocks, at 96 pixels."""
    layers, from_ = [nn.Conv2d(3, 40, 4, 4), ChannelNorm(40, eps=1e-6)], 40
    for width, blocks in ((40, 2), (80, 2), (160, 6), (320, 2)):
        if width != from_:
            layers += [ChannelNorm(from_, eps=1e-6), nn.Conv2d(from_, width, 2, 2)]
        layers += [ConvNextBlock(width) for _ in range(blocks)]
        from_ = width
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(320, eps=1e-6), nn.Linear(320, 1000))
    return nn.Sequential(*layers, head), [torch.randn(1, 3, 96, 96)]


def double_conv(from_, to):
    return nn.Sequential(conv_norm(from_, to, activation=nn.ReLU), conv_norm(to, to, activation=nn.ReLU))


class UNet(nn.Module):
    """Ronneberger et al. 2015, a quarter of its width."""

    def __init__(self, widths=(16, 32, 64, 128), classes=2):
        super().__init__()
        self.down = nn.ModuleList(double_conv(a, b) for a, b in zip((3, *widths), widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(double_conv(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        kept = []
        for i, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for up, join, skip in zip(reversed(self.up), reversed(self.join), reversed(kept[:-1])):
            x = join(torch.cat([skip, up(x)], dim=1))
        return self.head(x)


def unet():
    return UNet(), [torch.randn(1, 3, 96, 96)]


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, mask=None):
        n, tokens, width = x.shape
        q, k, v = (p(x).reshape(n, tokens, self.heads, width // self.heads).transpose(1, 2) for p in (self.q, self.k, self.v))
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        if mask is not None:
            scores = scores + mask
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, tokens, width))


class Encoder(nn.Module):
    """norm first, as vision transformers have it; or last, as BERT has."""

    def __init__(self, width, heads, hidden, first=True, activation=nn.GELU):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), activation(), nn.Linear(hidden, width))
        self.first = first

    def forward(self, x, mask=None):
        if self.first:
            x = x + self.attention(self.norm1(x), mask)
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.mlp(x))


class VitSmall(nn.Module):
    """`graft convert --example vit-small` to the parameter: without a class token."""

    def __init__(self, width=384, heads=6, depth=12, classes=1000):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.positions = nn.Parameter(torch.randn(1, 196, width) * 0.02)
        self.layers = nn.ModuleList(Encoder(width, heads, 4 * width) for _ in range(depth))
        self.norm, self.fc = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.fc(self.norm(x).mean(1))


def vit_small():
    return VitSmall(), [torch.randn(1, 3, 224, 224)]


class Bert(nn.Module):
    """BERT mini: 4 layers of 256, two classes out. The mask of 1 and 0 is an input, or says where tokens are not 0."""

    def __init__(self, vocabulary=8192, width=256, heads=4, depth=4, tokens=128):
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.types, self.norm = nn.Embedding(2, width), nn.LayerNorm(width, eps=1e-12)
        self.layers = nn.ModuleList(Encoder(width, heads, 4 * width, first=False) for _ in range(depth))
        self.pooler, self.head = nn.Linear(width, width), nn.Linear(width, 2)
        self.register_buffer("ids", torch.arange(tokens)[None])

    def forward(self, tokens, mask=None):
        if mask is None:
            mask = tokens.ne(0).float()
        x = self.words(tokens) + self.positions(self.ids[:, :tokens.shape[1]]) + self.types(torch.zeros_like(tokens))
        x = self.norm(x)
        added = (1.0 - mask[:, None, None, :]) * -10000.0
        for layer in self.layers:
            x = layer(x, added)
        return self.head(torch.tanh(self.pooler(x[:, 0])))


def padded():
    tokens = torch.randint(1, 8192, (1, 128))
    tokens[:, 100:] = 0
    return tokens


def bert():
    return Bert(), [padded()]


def bert_mask():
    tokens = padded()
    return Bert(), [tokens, tokens.ne(0).float()]


class Gpt(nn.Module):
    """GPT-2's form: 4 layers of 256, tanh GELU, a causal mask that the forward pass builds."""

    def __init__(self, vocabulary=8192, width=256, heads=4, depth=4, tokens=128):
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(Encoder(width, heads, 4 * width, activation=lambda: nn.GELU(approximate="tanh"))
                                    for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        nn.init.normal_(self.words.weight, 0, 0.02)

    def forward(self, tokens):
        n = tokens.shape[1]
        x = self.words(tokens) + self.positions(torch.arange(n, device=tokens.device))
        mask = torch.full((n, n), float("-inf")).triu(1)
        for layer in self.layers:
            x = layer(x, mask)
        return self.head(self.norm(x)).transpose(1, 2)  # [batch, vocabulary, tokens], as cross entropy takes it


def gpt():
    return Gpt(), [torch.randint(0, 8192, (1, 128))]


class PointNet(nn.Module):
    """Qi et al. 2017, with the transform of the input: shared layers over 1024 points [batch, 3, points], then a maximum."""

    @staticmethod
    def shared(*widths):
        return nn.Sequential(*(layer for a, b in zip(widths, widths[1:])
                               for layer in (nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())))

    @staticmethod
    def dense(*widths):
        return nn.Sequential(*(layer for a, b in zip(widths, widths[1:]) for layer in (nn.Linear(a, b), nn.ReLU())))

    def __init__(self, classes=40):
        super().__init__()
        self.turn, self.turn_dense, self.turn_out = self.shared(3, 64, 128, 1024), self.dense(1024, 512, 256), nn.Linear(256, 9)
        self.points, self.dense_layers = self.shared(3, 64, 64, 64, 128, 1024), self.dense(1024, 512, 256)
        self.head = nn.Linear(256, classes)
        nn.init.normal_(self.turn_out.weight, 0, 0.01)
        with torch.no_grad():
            self.turn_out.bias.copy_(torch.eye(3).flatten())

    def forward(self, x):
        turn = self.turn_out(self.turn_dense(self.turn(x).max(2)[0])).view(-1, 3, 3)
        x = torch.bmm(x.transpose(1, 2), turn).transpose(1, 2)
        return self.head(self.dense_layers(self.points(x).max(2)[0]))


def pointnet():
    return PointNet(), [torch.randn(1, 3, 1024)]


def sensor_cnn():
    """Six channels of an inertial sensor, 256 samples, six activities."""
    widths, layers = (6, 64, 64, 128, 128), []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Conv1d(a, b, 5, padding=2), nn.BatchNorm1d(b), nn.ReLU(), nn.MaxPool1d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(0.5), nn.Linear(128 * 16, 6)), [torch.randn(1, 6, 256)]


class TcnBlock(nn.Module):
    """Two dilated causal convolutions with a residual path (Bai et al. 2018); causal by padding and cutting off."""

    def __init__(self, from_, to, size, dilation):
        super().__init__()
        self.cut = (size - 1) * dilation
        self.conv1 = nn.Conv1d(from_, to, size, padding=self.cut, dilation=dilation)
        self.conv2 = nn.Conv1d(to, to, size, padding=self.cut, dilation=dilation)
        self.down = nn.Conv1d(from_, to, 1) if from_ != to else None

    def forward(self, x):
        y = F.relu(self.conv1(x)[:, :, :-self.cut])
        y = F.relu(self.conv2(y)[:, :, :-self.cut])
        return F.relu(y + (x if self.down is None else self.down(x)))


class Tcn(nn.Module):
    def __init__(self, channels=8, width=64, levels=6, classes=10):
        super().__init__()
        self.blocks = nn.Sequential(*(TcnBlock(channels if i == 0 else width, width, 5, 2 ** i) for i in range(levels)))
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.blocks(x)[:, :, -1])


def tcn():
    return Tcn(), [torch.randn(1, 8, 256)]


class BasicBlock(nn.Module):
    def __init__(self, from_, to, stride):
        super().__init__()
        self.layers = nn.Sequential(conv_norm(from_, to, stride=stride, activation=nn.ReLU), conv_norm(to, to))
        self.down = conv_norm(from_, to, 1, stride) if stride != 1 or from_ != to else None

    def forward(self, x):
        return F.relu(self.layers(x) + (x if self.down is None else self.down(x)))


def resnet18():
    """The whole network at 224 pixels."""
    layers, from_ = [conv_norm(3, 64, 7, 2, activation=nn.ReLU), nn.MaxPool2d(3, 2, 1)], 64
    for width in (64, 128, 256, 512):
        layers += [BasicBlock(from_, width, 1 if width == from_ else 2), BasicBlock(width, width, 1)]
        from_ = width
    return nn.Sequential(*layers, classifier(512, 1000)), [torch.randn(1, 3, 224, 224)]


NETWORKS = {
    # A value that rounding puts on the other side of a kink of ReLU6 moves gradients: after three steps PyTorch's own f32 differs from
    # its f64 by 0.37 of a weight at the rate of the others, by 4e-3 at 5e-4, by 2.5e-4 at this one; mobilenet_v3, without ReLU6, does not.
    "mobilenet_v2": Entry(mobilenet_v2, 13, 4, rate=1e-4),
    "mobilenet_v3": Entry(mobilenet_v3, 14, 4),
    "efficientnet": Entry(efficientnet, 14, 4),
    "convnext": Entry(convnext, 16, 4),
    "unet": Entry(unet, 15, 2),
    "vit_small": Entry(vit_small, 13, 4),
    "vit_small_17": Entry(vit_small, 17, 4),
    "bert": Entry(bert, 14, 4),
    "bert_mask": Entry(bert_mask, 15, 0),
    "gpt": Entry(gpt, 14, 2),
    "pointnet": Entry(pointnet, 13, 4),
    "sensor_cnn": Entry(sensor_cnn, 13, 16),
    "tcn": Entry(tcn, 13, 8),
    "resnet18": Entry(resnet18, 13, 2),
}


def make(name):
    """A network of the zoo with the same weights every time, and inputs of one sample."""
    torch.manual_seed(sum(map(ord, name.replace("_17", ""))))
    model, inputs = NETWORKS[name].make()
    return scatter_affine(model), inputs


def batch_of(name, batch, seed=1):
    """As many other samples as `batch` says: inputs, and labels for the network's output."""
    torch.manual_seed(seed)
    samples = [NETWORKS[name].make()[1] for _ in range(batch)]
    inputs = [torch.cat(parts) for parts in zip(*samples)]
    with torch.no_grad():
        shape = make(name)[0].eval()(*samples[0]).shape
    return inputs, torch.randint(0, shape[1], (batch, *shape[2:]))


def export(name, path, dropout=True):
    """As somebody exports it who means to go on training: batch norm and dropout stay nodes of the graph.
    Without dropout its layers stay, but drop nothing: no two programs draw the same numbers."""
    model, inputs = make(name)
    for module in model.modules():
        if isinstance(module, nn.Dropout) and not dropout:
            module.p = 0.0
    names = [f"input{i}" for i in range(len(inputs))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.eval(), tuple(inputs), path, input_names=names, output_names=["output"],
                          dynamic_axes={n: {0: "batch"} for n in (*names, "output")}, opset_version=NETWORKS[name].opset,
                          training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
    return model


def graft(tool, *arguments):
    done = subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip() or "no message").splitlines()[-1])
    return done.stdout


def data_flags(folder, name, batch, steps):
    """Writes a data set of one batch, `steps` times, so that each step's loss tells of the steps before; returns the batch and
    the flags of graft train and eval that name the data set."""
    inputs, labels = batch_of(name, batch, seed=2)
    np.save(f"{folder}/x.npy", np.concatenate([inputs[0].numpy()] * steps))
    np.save(f"{folder}/y.npy", np.concatenate([labels.numpy()] * steps))
    integers = "?integers=yes" if inputs[0].dtype == torch.int64 else ""
    return inputs[0], labels, ["--data", f"npy:{folder}/x.npy,{folder}/y.npy{integers}", "--loss", "ce", "--batch", batch]


def forward_error(tool, name, folder):
    """Norm of the difference from PyTorch's output over its norm, for two samples in eval mode."""
    model = export(name, f"{folder}/net.onnx", dropout=False)
    graft(tool, "convert", f"{folder}/net.onnx", "-o", f"{folder}/net.graft")
    inputs, _ = batch_of(name, 2)
    feeds = []
    for i, tensor in enumerate(inputs):
        np.save(f"{folder}/input{i}.npy", tensor.numpy())
        feeds += ["--input", f"input{i}={folder}/input{i}.npy"]
    graft(tool, "run", f"{folder}/net.graft", *feeds, "--out", f"{folder}/out")
    with torch.no_grad():
        expected = model.eval()(*inputs).numpy()
    actual = np.load(f"{folder}/out/output.npy")
    if actual.shape != expected.shape:
        raise RuntimeError(f"its output has the shape {actual.shape} instead of {expected.shape}")
    return float(np.linalg.norm(actual - expected) / np.linalg.norm(expected))


def training_error(tool, name, folder):
    """The largest difference from PyTorch over a few steps of SGD in train mode: of the losses, relative to each, and of the
    parameters after them, by the norm of each."""
    model, batch, steps = export(name, f"{folder}/net.onnx", dropout=False), NETWORKS[name].batch, NETWORKS[name].steps
    graft(tool, "convert", f"{folder}/net.onnx", "-o", f"{folder}/net.graft")
    x, labels, flags = data_flags(folder, name, batch, steps)
    graft(tool, "train", f"{folder}/net.graft", *flags, "--steps", steps, "--no-shuffle", "--optimizer", "sgd", "--lr", NETWORKS[name].rate,
          "--metrics", f"{folder}/metrics.jsonl", "--quiet", "-o", f"{folder}/trained.graft")
    with open(f"{folder}/metrics.jsonl") as lines:
        actual = [row["loss"] for row in map(json.loads, lines) if row.get("kind", "step") == "step"]
    optimizer, expected = torch.optim.SGD(model.train().parameters(), lr=NETWORKS[name].rate), []
    for _ in range(steps):
        loss = F.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(float(loss))
    graft(tool, "export", f"{folder}/trained.graft", "-o", f"{folder}/trained.safetensors")
    trained = read_safetensors(f"{folder}/trained.safetensors")
    missing = [n for n, _ in model.named_parameters() if n not in trained]
    if missing:
        raise RuntimeError(f"{len(missing)} parameters lost their names: {missing[0]}")
    weights = [float(np.linalg.norm(trained[n] - p.detach().numpy()) / max(float(p.detach().norm()), 1e-12))
               for n, p in model.named_parameters()]
    return max(*(abs(a - b) / abs(b) for a, b in zip(actual, expected, strict=True)), *weights)


def check(tool, wanted):
    """Exit status 0 where every network agrees."""
    failures = 0
    for name, entry in NETWORKS.items():
        if wanted and name not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            os.environ.setdefault("MESA_SHADER_CACHE_DIR", os.path.expanduser("~/.cache"))  # kernels are compiled once
            os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
            for what, measure, limit in (("forward", forward_error, FORWARD_TOLERANCE),
                                         ("training", training_error, entry.tolerance)):
                if measure is training_error and entry.batch == 0:
                    continue
                try:
                    error = measure(tool, name, folder)
                    good, text = error <= limit, f"{error:9.2e}  (limit {limit:g})"
                except RuntimeError as failed:
                    good, text = False, str(failed)
                failures += not good
                print(f"{name:16} {what:12} {text}  {'ok' if good else 'FAILED'}", flush=True)
    print("all agree" if failures == 0 else f"{failures} do not agree")
    return 1 if failures else 0


def main():
    torch.set_num_threads(2)
    if sys.argv[1] != "--write":
        return check(os.path.abspath(sys.argv[1]), sys.argv[2:])
    folder, wanted = sys.argv[2], sys.argv[3:]
    os.makedirs(folder, exist_ok=True)
    for name in NETWORKS:
        if wanted and name not in wanted:
            continue
        model = export(name, f"{folder}/{name}.onnx")
        for i, tensor in enumerate(batch_of(name, 1)[0]):
            np.save(f"{folder}/{name}.input{i}.npy", tensor.numpy())
        print(f"{folder}/{name}.onnx: {sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

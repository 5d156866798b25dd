"""Small networks of the kinds that people bring, as PyTorch's exporter writes them: each is converted, run, trained for three
steps of SGD by `graft train` without a flag that freezes anything, and exported again, beside PyTorch.

Usage: kinds.py GRAFT [NETWORK ...]     (GRAFT: the command line tool; run with a Python that has torch and onnx)
Exit status: 0 all agree, 1 some do not, 77 torch or onnx is not installed.

The large ones of the same kind (MobileNets, EfficientNet, ConvNeXt, U-Net, ViT, BERT, GPT, PointNet, TCN, ResNet) are in zoo.py.
What ONNX Runtime makes of exports is told by judge.py.
"""

import collections
import json
import os
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
from networks import scatter_affine
from parity import FORWARD_TOLERANCE, Report, error, graft

# Three steps let two trainings drift apart; of weights, by the norm of each tensor.
TRAINED_TOLERANCE = 2e-3
RATE, STEPS, BATCH = 0.05, 3, 6

# make: the module. inputs, targets: name to a function of the number of samples. loss: --loss, and the same of outputs and
# targets in torch. free: axes of an input that have a name, beside the batch.
Kind = collections.namedtuple("Kind", "make inputs targets loss torch_loss outputs free",
                              defaults=("ce", lambda y, t: F.cross_entropy(y[0], t["label"]), ("output",), {}))


def normal(*shape):
    return lambda n: torch.randn(n, *shape)


def integers(limit, *shape):
    return lambda n: torch.randint(0, limit, (n, *shape))


def mse(y, t):
    return F.mse_loss(y[0], t["target"])


class Recurrent(nn.Module):
    """Two layers both ways over windows of a sensor; the last step of the top layer is classified."""

    def __init__(self, cell):
        super().__init__()
        self.cell = cell(5, 12, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(24, 4)

    def forward(self, x):
        return self.head(self.cell(x)[0][:, -1])


class BilinearUNet(nn.Module):
    def __init__(self):
        super().__init__()
        block = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU())
        self.down1, self.down2, self.down3 = block(3, 8), block(8, 16), block(16, 24)
        self.up2, self.up1 = block(24 + 16, 16), block(16 + 8, 8)
        self.head = nn.Conv2d(8, 3, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.down3(F.max_pool2d(b, 2))
        b = self.up2(torch.cat([F.interpolate(c, size=b.shape[2:], mode="bilinear", align_corners=False), b], 1))
        a = self.up1(torch.cat([F.interpolate(b, size=a.shape[2:], mode="bilinear", align_corners=True), a], 1))
        return self.head(a)


class TransformerClassifier(nn.Module):
    """torch's own encoder layers; positions are a table that is no parameter."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(6, 16)
        angles = torch.arange(20)[:, None] / 100 ** (torch.arange(16)[None] / 16)
        self.register_buffer("positions", torch.sin(angles)[None])
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        for parameter in self.encoder.parameters():  # copies are equal, and the exporter writes equal tensors once
            nn.init.normal_(parameter, 1.0 if parameter.dim() == 1 else 0.0, 0.2)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        return self.head(self.encoder(self.project(x) + self.positions[:, :x.shape[1]]).mean(1))


class DeepSets(nn.Module):
    """A sum over the elements that the mask says are there (Zaheer et al. 2017)."""

    def __init__(self):
        super().__init__()
        self.phi = nn.Sequential(nn.Linear(4, 24), nn.ELU(), nn.Linear(24, 24), nn.ELU())
        self.rho = nn.Sequential(nn.Linear(24, 16), nn.Tanh(), nn.Linear(16, 3))

    def forward(self, elements, mask):
        kept = self.phi(elements) * mask[..., None]
        return self.rho(kept.sum(1) / mask.sum(1, keepdim=True).clamp(min=1))


class YoloHead(nn.Module):
    """Boxes as YOLO decodes them: sigmoids, a grid of cells, anchors, exponentials; grid and anchors are buffers."""

    def __init__(self, anchors=2, classes=3, size=6):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 12, 3, 2, 1), nn.BatchNorm2d(12), nn.SiLU(), nn.Conv2d(12, 16, 3, 2, 1), nn.SiLU())
        self.head = nn.Conv2d(16, anchors * (5 + classes), 1)
        self.anchors_per_cell, self.values = anchors, 5 + classes
        y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        self.register_buffer("grid", torch.stack([x, y], -1)[None, None].float())
        self.register_buffer("anchors", torch.tensor([[1.5, 2.0], [3.0, 1.0]]).view(1, anchors, 1, 1, 2))

    def forward(self, x):
        n, _, h, w = (y := self.head(self.body(x))).shape
        y = y.view(n, self.anchors_per_cell, self.values, h, w).permute(0, 1, 3, 4, 2)
        centers = (y[..., :2].sigmoid() + self.grid) / h
        sizes = y[..., 2:4].clamp(max=4).exp() * self.anchors / h
        return torch.cat([centers, sizes, y[..., 4:].sigmoid()], -1).reshape(n, -1, self.values)


class Images(nn.Module):
    """Rows as images of so many channels and places."""

    def __init__(self, channels, size):
        super().__init__()
        self.shape = (channels, size, size)

    def forward(self, x):
        return x.reshape(-1, *self.shape)


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 12, 3, 2, 1), nn.ReLU(), nn.Flatten(),
                                     nn.Linear(12 * 16, 10))
        self.decoder = nn.Sequential(nn.Linear(10, 12 * 16), Images(12, 4), nn.ReLU(), nn.ConvTranspose2d(12, 8, 4, 2, 1),
                                     nn.ReLU(), nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Sigmoid())

    def forward(self, x):
        return self.decoder(self.encoder(x))


class Siamese(nn.Module):
    """One tower, used twice: its weights gather both gradients."""

    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(nn.Conv2d(1, 6, 3, 2), nn.ReLU(), nn.Conv2d(6, 12, 3, 2), nn.ReLU(), nn.Flatten(),
                                   nn.Linear(12 * 9, 16))
        self.head = nn.Linear(16, 1)

    def forward(self, left, right):
        return self.head((self.tower(left) - self.tower(right)).abs())


class BagOfWords(nn.Module):
    """Words of a fixed number of places, 0 for none: their mean, as embedding bags have it."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 12, padding_idx=0)
        self.head = nn.Linear(12, 4)

    def forward(self, words):
        there = words.ne(0).unsqueeze(-1).float()
        return self.head((self.words(words) * there).sum(1) / there.sum(1).clamp(min=1))


def generator():
    """DCGAN's: noise to pictures."""
    return nn.Sequential(nn.Linear(8, 16 * 16), Images(16, 4), nn.BatchNorm2d(16), nn.ReLU(),
                         nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.LeakyReLU(0.2),
                         nn.Upsample(scale_factor=2), nn.Conv2d(8, 3, 3, padding=1), nn.Tanh())


class ImageAndTable(nn.Module):
    """A picture, three numbers and a category, each with its own branch."""

    def __init__(self):
        super().__init__()
        self.image = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.GroupNorm(2, 8), nn.GELU(), nn.AdaptiveAvgPool2d(2), nn.Flatten())
        self.table, self.kind = nn.Linear(3, 8), nn.Embedding(7, 4)
        self.head = nn.Linear(32 + 8 + 4, 4)

    def forward(self, image, table, kind):
        return self.head(torch.cat([self.image(image), torch.relu(self.table(table)), self.kind(kind)], 1))


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.InstanceNorm2d(8, affine=True), nn.Hardswish(), nn.Flatten())
        self.classes, self.boxes = nn.Linear(8 * 36, 5), nn.Linear(8 * 36, 4)

    def forward(self, x):
        y = self.body(x)
        return self.classes(y), self.boxes(y)


class CharCnn(nn.Module):
    """Characters of any length: convolutions and a maximum over all of them."""

    def __init__(self):
        super().__init__()
        self.characters = nn.Embedding(96, 8)
        self.convs = nn.ModuleList(nn.Conv1d(8, 10, k, padding=k // 2) for k in (3, 5))
        self.head = nn.Linear(20, 3)

    def forward(self, text):
        x = self.characters(text).transpose(1, 2)
        return self.head(torch.cat([torch.relu(conv(x)).amax(2) for conv in self.convs], 1))


class ShuffleBlock(nn.Module):
    """ShuffleNet V2's unit of stride 1 (Ma et al. 2018): half of the channels pass, then both halves are dealt out."""

    def __init__(self, width):
        super().__init__()
        half = width // 2
        self.branch = nn.Sequential(nn.Conv2d(half, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU(),
                                    nn.Conv2d(half, half, 3, padding=1, groups=half, bias=False), nn.BatchNorm2d(half),
                                    nn.Conv2d(half, half, 1, bias=False), nn.BatchNorm2d(half), nn.ReLU())

    def forward(self, x):
        left, right = x.chunk(2, 1)
        y = torch.cat([left, self.branch(right)], 1)
        n, c, h, w = y.shape
        return y.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def shufflenet():
    return nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(), ShuffleBlock(16), ShuffleBlock(16),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))


class ChannelsLast(nn.Module):
    """Pictures and maps of classes with channels last, as TensorFlow's exports have them."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=2, dilation=2), nn.ReLU())
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.body(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1))


def two_losses(y, t):
    return F.cross_entropy(y[0], t["label"]) + 0.5 * F.mse_loss(y[1], t["box"])


def padded_mask(n):
    return (torch.arange(9)[None] < torch.randint(1, 10, (n, 1))).float()


LABEL4, IMAGE = {"label": integers(4)}, {"image": normal(3, 12, 12)}
KINDS = {
    "lstm": Kind(lambda: Recurrent(nn.LSTM), {"x": normal(15, 5)}, LABEL4),
    "gru": Kind(lambda: Recurrent(nn.GRU), {"x": normal(15, 5)}, LABEL4),
    "rnn": Kind(lambda: Recurrent(nn.RNN), {"x": normal(15, 5)}, LABEL4),
    "unet_bilinear": Kind(BilinearUNet, {"image": normal(3, 16, 16)}, {"label": integers(3, 16, 16)}),
    # Height and width are open: each size of the way down, and what the way up is resized to, follows from them.
    "unet_open": Kind(BilinearUNet, {"image": normal(3, 14, 18)}, {"label": integers(3, 14, 18)},
                      free={"image": {2: "height", 3: "width"}}),
    "transformer": Kind(TransformerClassifier, {"x": normal(11, 6)}, {"label": integers(5)}),
    "deep_sets": Kind(DeepSets, {"elements": normal(9, 4), "mask": padded_mask}, {"label": integers(3)}),
    "yolo": Kind(YoloHead, {"image": normal(3, 24, 24)}, {"target": lambda n: torch.rand(n, 72, 8)}, "mse", mse),
    "autoencoder": Kind(Autoencoder, {"image": normal(1, 16, 16)}, {"target": lambda n: torch.rand(n, 1, 16, 16)}, "mse", mse),
    "siamese": Kind(Siamese, {"left": normal(1, 15, 15), "right": normal(1, 15, 15)},
                    {"same": lambda n: torch.randint(0, 2, (n, 1)).float()}, "bce",
                    lambda y, t: F.binary_cross_entropy_with_logits(y[0], t["same"])),
    "embedding": Kind(BagOfWords, {"words": integers(50, 10)}, LABEL4),
    "generator": Kind(generator, {"noise": normal(8)}, {"target": lambda n: torch.rand(n, 3, 16, 16) * 2 - 1}, "mse", mse),
    "image_table": Kind(ImageAndTable, {**IMAGE, "table": normal(3), "kind": integers(7)}, LABEL4),
    "two_heads": Kind(TwoHeads, IMAGE, {"label": integers(5), "box": normal(4)}, "ce:classes=label+0.5*mse:boxes=box",
                      two_losses, ("classes", "boxes")),
    # Length is open.
    "char_cnn": Kind(CharCnn, {"text": integers(96, 17)}, {"label": integers(3)}, free={"text": {1: "length"}}),
    "shufflenet": Kind(shufflenet, IMAGE, {"label": integers(5)}),
    "channels_last": Kind(ChannelsLast, {"image": normal(10, 9, 3)}, {"label": integers(4, 10, 9)},
                          torch_loss=lambda y, t: F.cross_entropy(y[0].movedim(-1, 1), t["label"])),
}

def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    return {name: np.frombuffer(data[entry["data_offsets"][0]:entry["data_offsets"][1]], np.float32).reshape(entry["shape"])
            for name, entry in header.items() if name != "__metadata__" and entry["dtype"] == "F32"}


def outputs_of(model, inputs):
    with torch.no_grad():
        y = model.eval()(*inputs.values())
    return [part.numpy() for part in (y if isinstance(y, tuple) else (y,))]


def check_forward(report, name, what, kind, folder, graft_model, model, inputs, limit=FORWARD_TOLERANCE):
    feeds = [part for n in inputs for part in ("--input", f"{n}={folder}/{n}.npy")]
    graft("run", graft_model, *feeds, "--out", f"{folder}/out")
    for output, expected in zip(kind.outputs, outputs_of(model, inputs)):
        report.check(name, f"{what} {output}", error(np.load(f"{folder}/out/{output}.npy"), expected), limit)


def check(report, name, kind, folder):
    torch.manual_seed(sum(map(ord, name)))
    model = scatter_affine(kind.make())
    inputs = {n: make(BATCH) for n, make in kind.inputs.items()}
    targets = {n: make(BATCH) for n, make in kind.targets.items()}
    axes = {n: {0: "batch", **kind.free.get(n, {})} for n in (*inputs, *kind.outputs)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model.eval(), tuple(inputs.values()), f"{folder}/net.onnx", input_names=list(inputs),
                          output_names=list(kind.outputs), dynamic_axes=axes, opset_version=14,
                          training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)
    graft("convert", f"{folder}/net.onnx", "-o", f"{folder}/net.graft")
    graft("info", f"{folder}/net.graft")  # with sizes of its own choice where they are open
    for n, tensor in {**inputs, **targets}.items():
        np.save(f"{folder}/{n}.npy", tensor.numpy())
        np.save(f"{folder}/{n}.train.npy", np.concatenate([tensor.numpy()] * STEPS))
    check_forward(report, name, "forward", kind, folder, f"{folder}/net.graft", model, inputs)

    data = ";".join(",".join(f"{n}={folder}/{n}.train.npy" for n in part) for part in (inputs, targets))
    graft("train", f"{folder}/net.graft", "--data", f"npy:{data}", "--loss", kind.loss, "--batch", BATCH, "--steps", STEPS,
          "--no-shuffle", "--optimizer", "sgd", "--lr", RATE, "--metrics", f"{folder}/metrics.jsonl", "--quiet",
          "-o", f"{folder}/trained.graft")
    with open(f"{folder}/metrics.jsonl") as lines:
        losses = [row["loss"] for row in map(json.loads, lines) if row.get("kind", "step") == "step"]
    optimizer = torch.optim.SGD(model.train().parameters(), lr=RATE)
    for step in range(STEPS):
        y = model(*inputs.values())
        loss = kind.torch_loss(y if isinstance(y, tuple) else (y,), targets)
        report.check(name, f"loss of step {step + 1}", abs(losses[step] - float(loss)) / abs(float(loss)), TRAINED_TOLERANCE)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    graft("export", f"{folder}/trained.graft", "-o", f"{folder}/trained.safetensors")
    trained, worst, missing = read_safetensors(f"{folder}/trained.safetensors"), 0.0, []
    for n, parameter in model.named_parameters():
        if n in trained:
            worst = max(worst, error(trained[n], parameter.detach().numpy()))
        else:
            missing.append(n)
    report.check(name, f"weights after {STEPS} steps", worst, TRAINED_TOLERANCE)
    report.check(name, f"parameters without their name {missing[:2]}", len(missing), 0)
    check_forward(report, name, "forward after", kind, folder, f"{folder}/trained.graft", model, inputs, TRAINED_TOLERANCE)


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    torch.set_num_threads(1)
    report = Report()
    for name in sys.argv[2:] or KINDS:
        with tempfile.TemporaryDirectory() as folder:
            try:
                check(report, name, KINDS[name], folder)
            except RuntimeError as problem:
                report.failures += 1
                print(f"{name:28} FAILED: {problem}", flush=True)
    sys.exit(1 if report.failures else 0)


if __name__ == "__main__":
    main()

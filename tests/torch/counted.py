"""Networks whose outputs are as long as the data decide, as people export them: detectors that end with NonMaxSuppression, masks
that choose rows. Each is exported by torch, converted, run on scenes with many, few and no results, and compared with PyTorch, and
with ONNX Runtime where ONNXRUNTIME_NODE names it, which also runs what graft exports without the source.

    counted.py GRAFT [NETWORK ...]     (run with a Python that has torch and onnx)

Exit status: 0 all agree, 1 some do not, 77 torch or onnx is not installed.
"""

import os
import sys
import tempfile
import warnings

try:
    import numpy as np
    import onnx  # noqa: F401  (PyTorch's exporter wants it)
    import torch
    from torch import nn
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import onnx_runtime
import parity
from parity import Report, graft

TOLERANCE = 1e-5
OPSET = 16


def suppressed(boxes, scores, most, overlap, least, centred):
    """By the specification, one box after the other."""
    rows = []
    for batch in range(scores.shape[0]):
        b = boxes[batch].astype(np.float64)
        corners = np.concatenate((b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2), 1) if centred else b
        area = (corners[:, 2] - corners[:, 0]) * (corners[:, 3] - corners[:, 1])
        for kind in range(scores.shape[1]):
            kept = []
            for i in np.argsort(-scores[batch, kind], kind="stable"):
                if scores[batch, kind, i] <= least or len(kept) == most:
                    break
                both = np.clip(np.minimum(corners[i, 2:], corners[kept, 2:]) - np.maximum(corners[i, :2], corners[kept, :2]), 0, None)
                shared = both[:, 0] * both[:, 1]
                if not (shared / (area[i] + area[kept] - shared) > overlap).any():
                    kept.append(i)
            rows += [(batch, kind, i) for i in kept]
    return np.array(rows, np.int64).reshape(-1, 3)


class Suppress(torch.autograd.Function):
    @staticmethod
    def forward(_, boxes, scores, most, overlap, least, centred):
        return torch.from_numpy(suppressed(boxes.numpy(), scores.numpy(), most, overlap, least, centred))

    @staticmethod
    def symbolic(g, boxes, scores, most, overlap, least, centred):
        numbers = [g.op("Constant", value_t=torch.tensor([n], dtype=t)) for n, t in
                   ((most, torch.int64), (overlap, torch.float32), (least, torch.float32))]
        return g.op("NonMaxSuppression", boxes, scores, *numbers, center_point_box_i=int(centred))


class Detector(nn.Module):
    """A convolution's cells, each a box around its place, how sure it is, and of what class."""

    def __init__(self, tail, classes=3, size=12):
        super().__init__()
        self.head = nn.Conv2d(3, 5 + classes, 3, padding=1)
        at = torch.arange(float(size))
        self.register_buffer("grid", torch.stack(torch.meshgrid(at, at, indexing="ij")[::-1], -1).reshape(1, -1, 2))
        self.tail = tail

    def forward(self, image):
        y = self.head(image).flatten(2).transpose(1, 2)
        middle, extent = self.grid + y[..., :2].tanh(), 1 + 3 * y[..., 2:4].sigmoid()
        return self.tail(torch.cat((middle, extent, y[..., 4:].sigmoid()), 2))


def end_to_end(x):
    """YOLOv7's export for ONNX Runtime: one row for each detection: batch, box, class, score."""
    boxes, scores = x[..., :4], x[..., 5:] * x[..., 4:5]
    halves = torch.tensor([[1, 0, 1, 0], [0, 1, 0, 1], [-0.5, 0, 0.5, 0], [0, -0.5, 0, 0.5]])
    boxes = boxes @ halves
    best, kind = scores.max(2, keepdim=True)
    found = Suppress.apply(boxes + kind.float() * 640, best.transpose(1, 2).contiguous(), 100, 0.45, 0.3, False)
    batch, at = found[:, 0], found[:, 2]
    return torch.cat((batch.unsqueeze(1).float(), boxes[batch, at], kind[batch, at].float(), best[batch, at]), 1)


def by_class(x):
    """Every class by itself, boxes around their middles, as many as there are; results apart."""
    scores = (x[..., 5:] * x[..., 4:5]).transpose(1, 2)
    found = Suppress.apply(x[..., :4], scores, 9223372036854775807, 0.3, 0.3, True)
    batch, kind, at = found[:, 0], found[:, 1], found[:, 2]
    return batch, kind, x[..., :4][batch, at], scores[batch, kind, at]


def first_image(x):
    """torchvision's way: boxes that are good enough, then suppression among them, then the first hundred."""
    scores = x[0, :, 4]
    good = scores > 0.5
    boxes, scores = x[0, :, :4][good], scores[good]
    kept = Suppress.apply(boxes.unsqueeze(0), scores[None, None], 9223372036854775807, 0.5, 0.0, True)[:, 2][:100]
    return boxes[kept], scores[kept].sqrt(), kept


class Masked(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.layer, self.function = nn.Linear(6, 6), function

    def forward(self, image):
        return self.function(self.layer(image.mean(1).flatten(0, 1)[:, :6]))


class Head(nn.Module):
    """Layers that see one row at a time."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.second(self.first(x[x[:, 0] > 0]).relu()).softmax(1)


class Rows(Masked):
    def __init__(self):
        super().__init__(None)
        self.function = Head()


NETWORKS = {
    "YOLO, end to end": lambda: Detector(end_to_end),
    "every class": lambda: Detector(by_class),
    "good boxes first": lambda: Detector(first_image),
    "elements of a mask": lambda: Masked(lambda x: (x[x > 0.2], (x > 0.2).nonzero())),
    "rows of a mask": lambda: Masked(lambda x: x[x.sum(1) > 0] * 2),
    "a head on rows": Rows,
}
# Random images, and plain ones, of which everything is found, or nothing.
SCENES = ((3, 0), (1, 0), (0, 100), (0, -100))


def images(scale=1, level=0):
    torch.manual_seed(scale + 1)
    return torch.randn(2, 3, 12, 12) * scale + level


def check(report, name, runtime):
    torch.manual_seed(3)
    model = NETWORKS[name]().eval()
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        outputs = model(images())
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        names = [f"output{i}" for i in range(len(outputs))]
        path = f"{folder}/net.onnx"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(model, (images(),), path, input_names=["image"], output_names=names, opset_version=OPSET)
        graft("convert", path, "-o", f"{folder}/net.graft")
        graft("export", f"{folder}/net.graft", "-o", f"{folder}/own.onnx")
        rows, worst, judged, exported = [], 0.0, 0.0, 0.0
        for scene in SCENES:
            x = images(*scene)
            np.save(f"{folder}/x.npy", x.numpy())
            graft("run", f"{folder}/net.graft", "--input", f"image={folder}/x.npy", "--out", f"{folder}/out")
            expected = model(x)
            expected = expected if isinstance(expected, tuple) else (expected,)
            opinion = runtime.run(path, {"image": x.numpy()}) if runtime else {}
            own = runtime.run(f"{folder}/own.onnx", {"image": x.numpy()}) if runtime else {}
            for key, tensor in zip(names, expected):
                got, wanted = np.load(f"{folder}/out/{key}.npy"), tensor.numpy()
                if got.dtype != wanted.dtype:
                    raise RuntimeError(f"{name}: {key} is {got.dtype} instead of {wanted.dtype}")
                worst = max(worst, parity.error(got, wanted))
                if opinion:
                    judged = max(judged, parity.error(got, np.asarray(opinion[key])))
                    if own[key].dtype != wanted.dtype:
                        raise RuntimeError(f"{name}: exported, {key} is {own[key].dtype} instead of {wanted.dtype}")
                    exported = max(exported, parity.error(got, np.asarray(own[key])))
            rows.append(len(expected[0]))
        if len(set(rows)) < 2:
            raise RuntimeError(f"{name}: every scene has {rows[0]} rows, which tells little")
        report.check(name, f"rows: {', '.join(map(str, rows))}", worst, TOLERANCE)
        if runtime:
            report.check(name, "beside ONNX Runtime", judged, TOLERANCE)
            report.check(name, "exported, in ONNX Runtime", exported, TOLERANCE)


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    report, runtime = Report(), onnx_runtime.find()
    for name in NETWORKS:
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        try:
            check(report, name, runtime)
        except RuntimeError as failure:
            report.failures += 1
            print(f"{name}: {failure}", flush=True)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())

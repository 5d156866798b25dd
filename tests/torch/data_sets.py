"""Data sets of files, end to end: the commands of docs/reference/data.md beside PyTorch, which trains the same network from the same
start on the same batches. Each must reach PyTorch's accuracy within 1.5 points.

Usage: data_sets.py GRAFT [NAME ...] [--data FOLDER]

With GRAFT_TEST_DATA (or --data FOLDER) the real data of images, digits, sensors and text; `masks` draws its own.
"""

import argparse
import csv
import glob
import os
import random
import re
import subprocess
import sys
import tarfile
import tempfile
import wave

try:
    import numpy as np
    import torch
    from PIL import Image
    from torch import nn
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

MARGIN = 1.5  # points of accuracy
WORD = (1 << 64) - 1


def mix(*words):
    """runtime/data/random.h."""
    def one(x):
        x = (x + 0x9E3779B97F4A7C15) & WORD
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & WORD
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB & WORD
        return x ^ (x >> 31)

    key = one(words[0])
    for word in words[1:]:
        key = one(key ^ word)
    return key


def epoch_order(samples, seed, epoch):
    """The order in which graft visits the samples: a Feistel network, walked until it lands inside."""
    key = mix(seed, epoch)
    bits = 4
    while samples >> (2 * bits):
        bits += 1
    mask = (1 << bits) - 1

    def encrypt(x):
        left, right = x >> bits, x & mask
        for step in range(8):
            left, right = right, left ^ (mix(key + step & WORD, right) & mask)
        return left << bits | right

    order = []
    for i in range(samples):
        i = encrypt(i)
        while i >= samples:
            i = encrypt(i)
        order.append(i)
    return order


def train_torch(model, inputs, labels, loss_of, epochs, batch, rate):
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    model.train()
    for epoch in range(epochs):
        order = epoch_order(len(labels), 1, epoch)
        for first in range(0, len(order), batch):
            rows = order[first:first + batch]
            optimizer.zero_grad()
            loss_of(model(*[x[rows] for x in inputs]), labels[rows]).backward()
            optimizer.step()
    model.eval()


def outputs_of(model, inputs):
    with torch.no_grad():
        return torch.cat([model(*[x[i:i + 100] for x in inputs]) for i in range(0, len(inputs[0]), 100)])


class Case:
    """One demonstration in a folder of its own."""

    def __init__(self, graft, data, folder):
        self.graft_path, self.data, self.folder = graft, data, folder

    def path(self, name):
        return os.path.join(self.folder, name)

    def graft(self, *arguments):
        print("  graft " + " ".join(str(a) for a in arguments), flush=True)
        done = subprocess.run([self.graft_path, *map(str, arguments)], cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def unpack(self, archive):
        with tarfile.open(os.path.join(self.data, archive)) as tar:
            tar.extractall(self.folder)

    def convert(self, model, inputs, names):
        dynamic = {name: {0: "batch"} for name in [*names, "logits"]}
        model.eval()
        torch.onnx.export(model, tuple(x[:2] for x in inputs), self.path("model.onnx"), input_names=names,
                          output_names=["logits"], dynamic_axes=dynamic, opset_version=13)
        self.graft("convert", "model.onnx", "-o", "model.graft")

    def train(self, spec, epochs, batch, rate, *more):
        self.graft("train", "model.graft", "--data", spec, "--optimizer", "adam", "--lr", rate, "--batch", batch, "--epochs",
                   epochs, "--seed", 1, "--quiet", "-o", "trained.graft", *more)

    def accuracy(self, spec, *more):
        out = self.graft("eval", "trained.graft", "--data", spec, "--batch", 100, *more)
        return float(re.search(r"accuracy ([\d.]+)%", out).group(1))


def images(case):
    """A folder of JPEG files, a folder for each class: 4,000 pictures of CIFAR-10, 1,500 held out."""
    case.unpack("img-cifar10-jpg/cifar10-jpg.tar.gz")
    mean, std = [0.49, 0.48, 0.45], [0.25, 0.24, 0.26]
    root = os.path.dirname(sorted(glob.glob(case.path("**/test"), recursive=True))[0])

    def load(part):
        pictures, labels = [], []
        for number, name in enumerate(sorted(os.listdir(f"{root}/{part}"))):
            for file in sorted(os.listdir(f"{root}/{part}/{name}")):
                pictures.append(np.asarray(Image.open(f"{root}/{part}/{name}/{file}").convert("RGB"), np.float32) / 255)
                labels.append(number)
        x = (np.stack(pictures) - np.float32(mean)) / np.float32(std)
        return [torch.tensor(x.transpose(0, 3, 1, 2).copy(), dtype=torch.float32)], torch.tensor(labels)

    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1),
                          nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Flatten(), nn.Linear(512, 10))
    x, y = load("train")
    case.convert(model, x, ["image"])
    options = f"?mean={','.join(map(str, mean))}&std={','.join(map(str, std))}"
    case.train(f"folder:{root}/train{options}", 4, 50, 0.002)
    train_torch(model, x, y, nn.functional.cross_entropy, 4, 50, 0.002)
    held, truth = load("test")
    ours = case.accuracy(f"folder:{root}/test{options}")
    info = case.graft("info", "trained.graft")
    assert '"airplane"' in info, "the model keeps the names of its classes"
    return ours, 100 * (outputs_of(model, held).argmax(1) == truth).double().mean().item()


def mel_spectra(samples, rate, bands, window, hop):
    spectrum = torch.stft(torch.tensor(samples, dtype=torch.float64), window, hop, window=torch.hann_window(window, dtype=torch.float64),
                          center=False, return_complex=True).abs() ** 2
    mel = np.linspace(0, 2595 * np.log10(1 + rate / 2 / 700), bands + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    hertz = np.arange(window // 2 + 1) * rate / window
    up = (hertz - edges[:-2, None]) / (edges[1:-1, None] - edges[:-2, None])
    down = (edges[2:, None] - hertz) / (edges[2:, None] - edges[1:-1, None])
    return torch.log(torch.tensor(np.maximum(np.minimum(up, down), 0)) @ spectrum + 1e-6)


def digits(case):
    """Spoken digits: 1,200 recordings, of which takes 0 to 4 of each speaker and digit are held out."""
    case.unpack("audio-fsdd-digits/recordings.tar.gz")
    files = sorted(os.listdir(case.path("recordings")))
    parts = {"train": [f for f in files if int(f[:-4].split("_")[2]) > 4],
             "test": [f for f in files if int(f[:-4].split("_")[2]) <= 4]}
    loaded = {}
    for part, names in parts.items():
        with open(case.path(f"{part}.csv"), "w") as out:
            out.writelines(f"{name},{name[0]}\n" for name in names)
        spectra = []
        for name in names:
            with wave.open(case.path(f"recordings/{name}")) as file:
                sound = np.frombuffer(file.readframes(8000), "<i2").astype(np.float64) / 32768
            spectra.append(mel_spectra(np.pad(sound, (0, 8000 - len(sound))), 8000, 40, 256, 128))
        x = ((torch.stack(spectra) + 5) / 4).float()
        loaded[part] = [x], torch.tensor([int(name[0]) for name in names])
    model = nn.Sequential(nn.Conv1d(40, 48, 5), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(48, 64, 3), nn.ReLU(),
                          nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(64, 10))
    (x, y), (held, truth) = loaded["train"], loaded["test"]
    case.convert(model, x, ["mel"])
    spec = "wav:recordings?list={}.csv&rate=8000&length=8000&mel=40,window=256,hop=128&normalize=-5,4"
    case.train(spec.format("train"), 6, 50, 0.002)
    train_torch(model, x, y, nn.functional.cross_entropy, 6, 50, 0.002)
    return case.accuracy(spec.format("test")), 100 * (outputs_of(model, held).argmax(1) == truth).double().mean().item()


class TwoSensors(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.g = nn.Conv1d(3, 12, 5), nn.Conv1d(3, 12, 5)
        self.out = nn.Linear(24, 4)

    def forward(self, accelerometer, gyroscope):
        a, g = torch.relu(self.a(accelerometer)).mean(2), torch.relu(self.g(gyroscope)).mean(2)
        return self.out(torch.cat([a, g], 1))


def sensors(case):
    """Windows of an accelerometer and a gyroscope in a CSV file, as two inputs."""
    loaded = {}
    for part in ("train", "test"):
        rows = []
        with open(os.path.join(case.data, f"sensor-ucr-uea/BasicMotions_{part.upper()}.ts")) as file:
            lines = [line.strip().split(":") for line in file if line[0] not in "@#" and ":" in line]
        for *channels, label in lines:
            series = np.array([[float(v) for v in c.split(",")] for c in channels])
            rows += [(series[:, at:at + 50], label) for at in range(0, 51, 10)]
        with open(case.path(f"{part}.csv"), "w", newline="") as file:
            out = csv.writer(file)
            out.writerow([f"{s}{i}" for s in "ag" for i in range(150)] + ["activity"])
            out.writerows([*np.round(window, 6).reshape(-1).tolist(), label] for window, label in rows)
        x = torch.tensor(np.stack([np.round(window, 6) for window, _ in rows]), dtype=torch.float32)
        names = sorted({label for _, label in rows})
        loaded[part] = [x[:, :3], x[:, 3:]], torch.tensor([names.index(label) for _, label in rows])
    (x, y), (held, truth) = loaded["train"], loaded["test"]
    model = TwoSensors()
    case.convert(model, x, ["accelerometer", "gyroscope"])
    spec = "csv:{}.csv?inputs=accelerometer:a0..a149;gyroscope:g0..g149&label=activity"
    case.train(spec.format("train"), 12, 24, 0.01)
    train_torch(model, x, y, nn.functional.cross_entropy, 12, 24, 0.01)
    return case.accuracy(spec.format("test")), 100 * (outputs_of(model, held).argmax(1) == truth).double().mean().item()


class Letters(nn.Module):
    def __init__(self, labels):
        super().__init__()
        self.table = nn.Embedding(256, 16)
        self.conv = nn.Conv1d(16, 64, 5)
        self.out = nn.Linear(64, labels)

    def forward(self, text):
        return self.out(torch.relu(self.conv(self.table(text).transpose(1, 2))).amax(2))


def text(case):
    """Several labels for a text: which operators the SQL has that answers a question (WikiSQL)."""
    import json
    labels = {"count": "COUNT", "maximum": "MAX", "minimum": "MIN", "both": " AND ", "compares": r"[<>]"}
    length, loaded = 120, {}
    for part, names in {"train": ["train"], "test": ["valid", "test"]}.items():
        rows = []
        for name in names:
            with open(os.path.join(case.data, f"text-lora-wikisql/{name}.jsonl")) as file:
                for line in file:
                    question, answer = re.search(r"Q: (.*)\nA: (.*)", json.loads(line)["text"]).groups()
                    rows.append([question] + [int(bool(re.search(p, answer))) for p in labels.values()])
        with open(case.path(f"{part}.csv"), "w", newline="", encoding="utf-8") as file:
            out = csv.writer(file)
            out.writerow(["question", *labels])
            out.writerows(rows)
        tokens = [list(row[0].encode()[:length]) for row in rows]
        x = torch.tensor([t + [0] * (length - len(t)) for t in tokens])
        loaded[part] = [x], torch.tensor([row[1:] for row in rows], dtype=torch.float32)
    (x, y), (held, truth) = loaded["train"], loaded["test"]
    model = Letters(len(labels))
    case.convert(model, x, ["text"])
    spec = f"csv:train.csv?inputs=text:question&targets=labels:count..compares&length={length}"
    case.train(spec, 8, 25, 0.003, "--loss", "bce")
    train_torch(model, x, y, nn.functional.binary_cross_entropy_with_logits, 8, 25, 0.003)
    np.save(case.path("held.npy"), held[0].numpy().astype(np.int32))
    case.graft("run", "trained.graft", "--input", "text=held.npy", "--out", "out")
    ours = torch.tensor(np.load(case.path("out/logits.npy")))
    return [100 * ((logits > 0) == (truth > 0.5)).double().mean().item() for logits in (ours, outputs_of(model, held))]


def masks(case):
    """Segmentation: squares and discs on noise, with masks that have a palette."""
    noise = np.random.RandomState(3)
    loaded = {}
    for part, count in (("train", 200), ("test", 60)):
        for folder in ("images", "masks"):
            os.makedirs(case.path(f"{part}/{folder}"))
        pictures, maps = [], []
        for i in range(count):
            mask = np.zeros((24, 24), np.uint8)
            y, x = np.mgrid[0:24, 0:24]
            for kind in (1, 2):
                cy, cx, r = noise.randint(4, 20), noise.randint(4, 20), noise.randint(3, 6)
                inside = np.maximum(abs(y - cy), abs(x - cx)) <= r if kind == 1 else (y - cy) ** 2 + (x - cx) ** 2 <= r * r
                mask[inside] = kind
            colours = np.array([[90, 90, 90], [150, 100, 90], [100, 110, 150]])[mask]
            picture = np.clip(colours + noise.normal(0, 25, (24, 24, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(picture).save(case.path(f"{part}/images/{i:03}.png"))
            palette = Image.fromarray(mask, "P")
            palette.putpalette([0, 0, 0, 200, 0, 0, 0, 0, 200])
            palette.save(case.path(f"{part}/masks/{i:03}.png"))
            pictures.append(picture.astype(np.float32) / 255)
            maps.append(mask)
        x = torch.tensor((np.stack(pictures).transpose(0, 3, 1, 2) - np.float32(0.4)) / np.float32(0.2))
        loaded[part] = [x], torch.tensor(np.stack(maps).astype(np.int64))
    (x, y), (held, truth) = loaded["train"], loaded["test"]
    model = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 16, 3, padding=2, dilation=2), nn.ReLU(),
                          nn.Conv2d(16, 16, 3, padding=4, dilation=4), nn.ReLU(), nn.Conv2d(16, 3, 1))
    case.convert(model, x, ["image"])
    spec = "folder:{0}/images;mask={0}/masks?mean=0.4&std=0.2"
    case.train(spec.format("train"), 6, 10, 0.005)
    train_torch(model, x, y, nn.functional.cross_entropy, 6, 10, 0.005)
    return case.accuracy(spec.format("test")), 100 * (outputs_of(model, held).argmax(1) == truth).double().mean().item()


def main():
    cases = {case.__name__: case for case in (images, digits, sensors, text, masks)}
    parser = argparse.ArgumentParser()
    parser.add_argument("graft")
    parser.add_argument("names", nargs="*", choices=[[], *cases])
    parser.add_argument("--data", default=os.environ.get("GRAFT_TEST_DATA", ""))
    options = parser.parse_args()
    graft, data = options.graft, options.data
    torch.set_num_threads(2)
    failed = []
    for case in [cases[name] for name in options.names or cases]:
        if case is not masks and not os.path.isdir(data):
            print(f"{case.__name__}: skipped, for GRAFT_TEST_DATA names no folder with the data")
            continue
        print(f"{case.__name__}: {case.__doc__.splitlines()[0]}", flush=True)
        torch.manual_seed(0)
        random.seed(0)
        with tempfile.TemporaryDirectory() as folder:
            ours, torchs = case(Case(os.path.abspath(graft), data, folder))
        print(f"{case.__name__}: graft {ours:.2f}%, PyTorch {torchs:.2f}%", flush=True)
        if abs(ours - torchs) > MARGIN:
            failed.append(case.__name__)
    assert not failed, f"more than {MARGIN} points away: {failed}"


if __name__ == "__main__":
    main()

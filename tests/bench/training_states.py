"""Writes the states of real trainings, for checkpoint_bench: LeNet on MNIST, by PyTorch.

    /usr/bin/python3 tests/bench/training_states.py FOLDER-OF-MNIST OUT

OUT/<training>/<gap>/<k>/<element>.<tensor> is a tensor of the k-th state, `gap` steps after the one before; the first
state of each is taken after 300 steps.
"""

import gzip
import os
import sys

import torch
from torch import nn
from torch.nn import functional

WARM_UP, STATES = 300, 5
GAPS = (1, 10, 100)


def read_idx(path):
    with gzip.open(path) as file:
        data = file.read()
    sizes = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(data[3])]
    return torch.frombuffer(bytearray(data[4 + 4 * len(sizes):]), dtype=torch.uint8).reshape(sizes)


def lenet():
    return nn.Sequential(nn.Conv2d(1, 20, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(20, 50, 5), nn.ReLU(),
                         nn.MaxPool2d(2), nn.Flatten(), nn.Linear(800, 500), nn.ReLU(), nn.Linear(500, 10))


class Lora(nn.Module):
    """A frozen linear layer with an adapter of rank 16."""

    def __init__(self, base, rank=16):
        super().__init__()
        self.base = [base]  # hidden from parameters(): frozen weights are no part of the state
        base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) / base.in_features ** 0.5)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base[0](x) + (x @ self.a.T) @ self.b.T


class Training:
    def __init__(self, images, labels, optimizer, rate, kind="f32"):
        torch.manual_seed(1)
        self.images, self.labels = images, labels
        self.dtype = torch.bfloat16 if kind == "bf16" else torch.float32
        self.model = lenet()
        if kind == "adapters":
            self.make(optimizer, 1e-3)
            for _ in range(WARM_UP):
                self.step()
            self.model.requires_grad_(False)
            self.model[7], self.model[9] = Lora(self.model[7]), Lora(self.model[9])
        self.model = self.model.to(self.dtype)
        self.make(optimizer, rate)

    def make(self, optimizer, rate):
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = (torch.optim.AdamW(trained, lr=rate) if optimizer == "adamw"
                          else torch.optim.SGD(trained, lr=rate, momentum=0.9))

    def step(self):
        batch = torch.randint(len(self.images), (64,))
        out = self.model(self.images[batch].to(next(self.model.parameters()).dtype))
        self.optimizer.zero_grad()
        functional.cross_entropy(out.float(), self.labels[batch]).backward()
        self.optimizer.step()

    def save(self, folder):
        os.makedirs(folder)
        for name, parameter in self.model.named_parameters():
            if not parameter.requires_grad:
                continue
            tensors = {name: parameter.detach()}
            for key, value in self.optimizer.state[parameter].items():
                if torch.is_tensor(value) and value.numel() > 1:
                    tensors[f"{name}.{key}"] = value
            for full, tensor in tensors.items():
                element = "bf16" if tensor.dtype == torch.bfloat16 else "f32"
                with open(f"{folder}/{element}.{full}", "wb") as file:
                    file.write(bytes(tensor.contiguous().flatten().view(torch.uint8).numpy()))


def main():
    data, out = sys.argv[1:3]
    torch.set_num_threads(1)
    images = read_idx(f"{data}/train-images-idx3-ubyte.gz").float().unsqueeze(1) / 255
    labels = read_idx(f"{data}/train-labels-idx1-ubyte.gz").long()
    for optimizer in ("sgd", "adamw"):
        for kind, rate in (("f32", 1e-3), ("f32", 1e-4), ("bf16", 1e-3), ("bf16", 1e-4), ("adapters", 1e-4)):
            for gap in GAPS:
                training = Training(images, labels, optimizer, rate, kind)
                for _ in range(WARM_UP):
                    training.step()
                for k in range(STATES):
                    training.save(f"{out}/{optimizer} {kind} lr {rate:g}/{gap}/{k}")
                    for _ in range(gap):
                        training.step()
            print(optimizer, kind, rate, flush=True)


if __name__ == "__main__":
    main()

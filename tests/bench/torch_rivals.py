#!/usr/bin/env python3
"""What PyTorch reaches on this machine: rates of the cases of `graft bench ops` and of training steps. A line of JSON
about PyTorch, then one for each case when it is done.

torch_rivals.py [--repeat N] [--all] [--large] [--full] [--only REGEX] [--limit SECONDS] [--processor-time]
                                                         on a CUDA device, else on the CPU; eager and compiled
torch_rivals.py --images lenet|resnet18 COUNT FOLDER     writes x.npy and y.npy, made-up images for graft train

f32 is f32: TF32 is off. --large: what only a GPU should be asked. A CPU gets kernels and a small network, whole ones with
--all, in the GPU's sizes with --full. No case begins when --limit SECONDS are over (0: no limit), which its line says. --processor-time: of the CPU, processor time
per thread instead of the clock's, for a machine that others use too. Debian's PyTorch has no torch.compile, and
multiplies by the reference BLAS unless libopenblas0 is installed; "blas" says which library was loaded.
"""

import argparse
import json
import os
import re
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
IMAGES = {"lenet": (1, 28, 10), "resnet18": (3, 224, 1000)}


LONG = 2.0       # seconds: of what takes longer, one run is enough
CASE = 10.0      # seconds that one case may take in all, as far as whole runs go


def say(*what):
    print(*what, file=sys.stderr, flush=True)


def tell(line):
    print(json.dumps(line), flush=True)


def seconds(function, repeat, clock):
    """The median; on CUDA after everything before is done."""
    times = []
    start = time.perf_counter()
    for i in range(repeat + 2):
        if CUDA:
            torch.cuda.synchronize()
        begin = clock()
        function()
        if CUDA:
            torch.cuda.synchronize()
        last = clock() - begin
        if i >= 2:  # the first compile, choose kernels, fill caches
            times.append(last)
        if last > LONG or time.perf_counter() - start > CASE:
            times.append(last)
            break
    times.sort()
    return times[len(times) // 2]


def per_thread():
    return time.process_time() / torch.get_num_threads()


def blas():
    """The library that products are by, where the system tells what is loaded."""
    try:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            found = {os.path.basename(line.split()[-1]) for line in maps if "blas" in line.split()[-1]}
    except OSError:
        return ""
    return ", ".join(sorted(found))


def can_compile():
    """Whether torch.compile works here; what it lacks is said in a line."""
    if not hasattr(torch, "compile"):
        say(f"torch.compile is left out: PyTorch {torch.__version__} has none.")
        return False
    try:
        x = torch.ones(8, 8, device=DEVICE)
        torch.compile(lambda: torch.relu(x @ x) + 1)()
    except Exception as failure:  # it needs a compiler that may not be there
        say("torch.compile is left out:", str(failure).strip().split("\n")[0][:160])
        return False
    return True


class Rates:
    def __init__(self, options, clock):
        self.repeat = options.repeat
        self.only = re.compile(options.only)
        self.clock = clock
        self.end = time.perf_counter() + options.limit if options.limit > 0 else None
        self.compiles = can_compile()

    def wants(self, name, unit):
        """Whether the case is asked for and there is time for it."""
        if not self.only.search(name):
            return False
        if self.end is not None and time.perf_counter() > self.end:
            tell({"name": name, "unit": unit, "why": "the time for PyTorch was over (--limit)"})
            return False
        return True

    def add(self, name, unit, amount, function, **more):
        if not self.wants(name, unit):
            return
        begin = time.perf_counter()
        rates = {"unit": unit, "eager": amount / seconds(function, self.repeat, self.clock), **more}
        if self.compiles:
            try:
                rates["compiled"] = amount / seconds(torch.compile(function), self.repeat, self.clock)
            except Exception as failure:  # of this one function
                rates["compiled_failed"] = str(failure)[:200]
        say(f"PyTorch: {name}, {time.perf_counter() - begin:.1f} s")
        tell({"name": name, **rates})


def tensor(*shape, dtype=torch.float32):
    return torch.full(shape, 0.5, device=DEVICE, dtype=dtype)


def products(rates, sizes, large=False):
    for m, n, k in ((n, n, n) for n in sizes):
        for name, dtype in (("", torch.float32), ("f16 ", torch.float16), ("bf16 ", torch.bfloat16)):
            if name and not large:
                continue
            a, b = tensor(m, k, dtype=dtype), tensor(k, n, dtype=dtype)
            rates.add(f"matmul NN {name}{m}x{n}x{k}", "GFLOP/s", 2e-9 * m * n * k, lambda a=a, b=b: a @ b)


def convolutions(rates):
    for batch, size, inputs, outputs, kernel, stride in ((64, 12, 20, 50, 5, 1), (4, 28, 64, 64, 3, 1),
                                                         (4, 28, 64, 128, 3, 2), (4, 28, 128, 128, 1, 1)):
        x = tensor(batch, inputs, size, size)
        w = tensor(outputs, inputs, kernel, kernel)
        out = (size + 2 * (kernel // 2) - kernel) // stride + 1
        flops = 2e-9 * batch * out * out * outputs * inputs * kernel * kernel
        name = f"conv {kernel}x{kernel}{f' stride {stride}' if stride > 1 else ''} {batch}x{size}x{size}x{inputs}"
        rates.add(f"{name} -> {outputs}", "GFLOP/s", flops,
                  lambda x=x, w=w, s=stride, p=kernel // 2: F.conv2d(x, w, stride=s, padding=p))


def bandwidth(rates, large):
    side = 8192 if large else 2048
    label = "64M" if large else "4M"
    x, y, z = (tensor(side, side) for _ in range(3))
    gb = side * side * 4e-9
    rates.add(f"add {label}", "GB/s", 3 * gb, lambda: torch.add(x, y, out=z))
    rates.add(f"gelu {label}", "GB/s", 2 * gb, lambda: F.gelu(x))


def attend(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    mask = torch.full((q.shape[-2], k.shape[-2]), float("-inf"), device=q.device).triu(1)
    return F.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + mask, -1) @ v


def attention(rates):
    """Forward and backward at 2048 tokens, 16 heads of 64, causal; flash attention where PyTorch has it."""
    shape = (4, 16, 2048, 64)
    q, k, v = (torch.randn(shape, device=DEVICE, dtype=torch.float16, requires_grad=True) for _ in range(3))
    flops = 4 * 16 * 2048 * 2048 * 64  # of one product of all rows and keys, halved by the mask, times two

    def forward():
        return attend(q, k, v)

    def both():
        torch.autograd.grad(forward().sum(), (q, k, v))

    rates.add("attention 4x2048x16x64", "GFLOP/s", 2e-9 * flops, forward)
    rates.add("attention forward and backward 4x2048x16x64", "GFLOP/s", 7e-9 * flops, both)


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


def steps(rates, name, make, batch):
    if not rates.wants(name, "steps/s"):
        return
    channels, size, classes = IMAGES[name]
    model = make().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x = torch.rand(batch, channels, size, size, device=DEVICE)
    y = torch.randint(classes, (batch,), device=DEVICE)

    def step():
        optimizer.zero_grad(set_to_none=True)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    rates.add(name, "steps/s", 1, step, batch=batch)


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


def language_steps(rates, seq):
    for name, rank in (("full step", 0), ("lora step", 8)):
        case = f"135M, {seq} tokens: {name}"
        if not rates.wants(case, "tokens/s"):
            continue
        model = Decoder(rank).to(DEVICE)
        optimizer = torch.optim.AdamW([w for w in model.parameters() if w.requires_grad], lr=1e-4)
        tokens = torch.randint(49152, (1, seq + 1), device=DEVICE)

        def step(model=model, optimizer=optimizer, tokens=tokens):
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten()).backward()
            optimizer.step()

        rates.add(case, "tokens/s", seq, step, tokens=seq)


def write_images(name, count, folder):
    import numpy as np
    channels, size, classes = IMAGES[name]
    generator = np.random.default_rng(1)
    np.save(f"{folder}/x.npy", generator.random((count, channels, size, size), dtype=np.float32))
    np.save(f"{folder}/y.npy", generator.integers(classes, size=count).astype(np.int32))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--all", action="store_true", help="a CPU gets whole networks too")
    parser.add_argument("--full", action="store_true", help="a CPU gets what a GPU gets, and takes its time")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--limit", type=float, default=0, metavar="SECONDS", help="cases begin within that time")
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--images", nargs=3, metavar=("EXAMPLE", "COUNT", "FOLDER"))
    options = parser.parse_args()
    if options.images:
        write_images(options.images[0], int(options.images[1]), options.images[2])
        return
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(1)
    if not CUDA:
        torch.set_num_threads(os.cpu_count())
    clock = per_thread if options.processor_time and not CUDA else time.perf_counter
    device = torch.cuda.get_device_name() if CUDA else f"CPU, {torch.get_num_threads()} threads"
    torch.ones(2, 2) @ torch.ones(2, 2)  # loads what products are by
    tell({"version": torch.__version__, "device": device, "cuda": CUDA, "blas": blas()})
    rates = Rates(options, clock)
    small = not (CUDA or options.full)
    products(rates, (256, 512) if small else (256, 512, 768, 1024))
    convolutions(rates)
    bandwidth(rates, False)
    steps(rates, "lenet", lenet, 64)
    if options.all or not small:
        steps(rates, "resnet18", resnet18, 32 if CUDA else 8 if options.full else 1)
        language_steps(rates, 32 if small else 128)
    if options.large:
        products(rates, (4096, 8192), True)
        bandwidth(rates, True)
        attention(rates)
        language_steps(rates, 1024)


if __name__ == "__main__":
    main()

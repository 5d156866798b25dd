#!/usr/bin/env python3
"""What PyTorch reaches on this machine: rates of the cases of `graft bench ops` and of training steps. A line of JSON
about PyTorch, then lines of each case as its figures are there: "eager", then "compiled".

torch_rivals.py [--repeat N] [--all] [--large] [--full] [--rounded] [--eager] [--only REGEX] [--limit SECONDS]
                [--processor-time]                       on a CUDA device, else on the CPU; eager and compiled
torch_rivals.py --images lenet|resnet18 COUNT FOLDER     writes x.npy and y.npy, made-up images for graft train

f32 is f32: TF32 is off. With --rounded it is on, and what --large has of f16 and bf16 is asked too. --large: what only a
GPU should be asked. A CPU gets kernels and a small network, whole ones with --all, in the GPU's sizes with --full. No
case begins when --limit SECONDS are over (0: no limit), which its line says. On CUDA, kernels are timed on the device,
steps by the clock. --processor-time: of the CPU, processor time per thread instead of the clock's, for a machine that
others use too. torch.compile needs a compiler: on a CPU a g++ and PyTorch's headers (Debian: g++, libtorch-dev, from
PyTorch 2 on), on CUDA Triton. Debian's PyTorch multiplies by the reference BLAS unless libopenblas0 is installed; "blas"
says which library was loaded.
"""

import argparse
import json
import os
import re
import sys
import time
from functools import partial

import torch
from torch.nn import functional as F

from torch_networks import IMAGES, Decoder, attend, lenet, resnet18, write_images

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
LONG = 2.0       # seconds: of what takes longer, one run is enough
CASE = 10.0      # seconds that one case may take in all, as far as whole runs go
TOGETHER = 10    # steps between two looks at the clock on CUDA
AHEAD = 1000000  # cycles that a GPU is kept busy with, while what is timed queues up behind


def say(*what):
    print(*what, file=sys.stderr, flush=True)


def tell(line):
    print(json.dumps(line), flush=True)


def seconds(function, repeat, clock, together=1):
    """The median by the clock; on CUDA after everything before is done. What compiles has run before."""
    times = []
    start = time.perf_counter()
    while len(times) < repeat and (not times or time.perf_counter() - start < CASE):
        begin = clock()
        for _ in range(together):
            function()
        if CUDA:
            torch.cuda.synchronize()
        times.append((clock() - begin) / together)
    times.sort()
    return times[len(times) // 2]


def device_seconds(function, repeat):
    """The median of what the device takes, by its own clock, without the time that launching takes."""
    pairs = []
    for _ in range(repeat):
        torch.cuda._sleep(AHEAD)
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        function()
        end.record()
        pairs.append((begin, end))
    torch.cuda.synchronize()
    times = sorted(1e-3 * begin.elapsed_time(end) for begin, end in pairs)
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


def first_line(failure):
    lines = str(failure).strip().splitlines()
    return lines[0][:160] if lines else type(failure).__name__


def can_compile():
    """Whether torch.compile works here; what it lacks is said in a line."""
    if not hasattr(torch, "compile"):
        return False, f"PyTorch {torch.__version__} has no torch.compile"
    try:
        x = torch.ones(8, 8, device=DEVICE)
        torch.compile(lambda: torch.relu(x @ x) + 1)()
    except Exception as failure:  # it needs a compiler that may not be there
        return False, f"torch.compile does not work here: {first_line(failure)}"
    return True, ""


class Rates:
    def __init__(self, options, clock):
        self.repeat = options.repeat
        self.only = re.compile(options.only)
        self.clock = clock
        self.end = time.perf_counter() + options.limit if options.limit > 0 else None
        self.compiles, self.lacks = (False, "") if options.eager else can_compile()
        if self.lacks:
            say(self.lacks)

    def late(self):
        return self.end is not None and time.perf_counter() > self.end

    def wants(self, name, unit):
        """Whether the case is asked for and there is time for it."""
        if not self.only.search(name):
            return False
        if self.late():
            tell({"name": name, "unit": unit, "why": "the time for PyTorch was over (--limit)"})
            return False
        return True

    def time(self, function, step):
        """Seconds of the function. It is run first to choose kernels and fill caches; where that takes long, once."""
        for _ in range(2):
            begin = self.clock()
            function()
            if CUDA:
                torch.cuda.synchronize()
            last = self.clock() - begin
            if last > LONG:
                break
        if CUDA and not step:
            return device_seconds(function, 3 * self.repeat)
        return seconds(function, 1 if last > LONG else self.repeat, self.clock, TOGETHER if CUDA else 1)

    def add(self, name, unit, amount, make, step=False, **more):
        """`make(wrap)` gives the function to time, of which `wrap` compiles the parts worth it."""
        if not self.wants(name, unit):
            return
        begin = time.perf_counter()
        tell({"name": name, "unit": unit, "eager": amount / self.time(make(lambda part: part), step), **more})
        say(f"PyTorch: {name}, {time.perf_counter() - begin:.1f} s")
        if not self.compiles:
            return
        if self.late():
            tell({"name": name, "compiled_why": "the time for PyTorch was over (--limit)"})
            return
        begin = time.perf_counter()
        torch.compiler.reset()  # or sizes would turn dynamic, and after a few of them nothing is compiled any more
        try:
            function = make(torch.compile)
            function()  # compiles, however long that takes
            tell({"name": name, "compiled": amount / self.time(function, step)})
        except Exception as failure:  # of this one function
            tell({"name": name, "compiled_why": f"torch.compile: {first_line(failure)}"})
        say(f"PyTorch: {name}, compiled, {time.perf_counter() - begin:.1f} s")


def tensor(*shape, dtype=torch.float32):
    return torch.full(shape, 0.5, device=DEVICE, dtype=dtype)


def products(rates, sizes, dtypes):
    for n in sizes:
        for name, dtype in dtypes:
            a, b = tensor(n, n, dtype=dtype), tensor(n, n, dtype=dtype)
            rates.add(f"matmul NN {name}{n}x{n}x{n}", "GFLOP/s", 2e-9 * n * n * n,
                      lambda wrap, a=a, b=b: wrap(lambda: a @ b))


def convolutions(rates):
    for batch, size, inputs, outputs, kernel, stride in ((64, 12, 20, 50, 5, 1), (4, 28, 64, 64, 3, 1),
                                                         (4, 28, 64, 128, 3, 2), (4, 28, 128, 128, 1, 1)):
        x = tensor(batch, inputs, size, size)
        w = tensor(outputs, inputs, kernel, kernel)
        out = (size + 2 * (kernel // 2) - kernel) // stride + 1
        flops = 2e-9 * batch * out * out * outputs * inputs * kernel * kernel
        name = f"conv {kernel}x{kernel}{f' stride {stride}' if stride > 1 else ''} {batch}x{size}x{size}x{inputs}"
        rates.add(f"{name} -> {outputs}", "GFLOP/s", flops,
                  lambda wrap, x=x, w=w, s=stride, p=kernel // 2: wrap(lambda: F.conv2d(x, w, stride=s, padding=p)))


def bandwidth(rates, side, label):
    x, y, z = (tensor(side, side) for _ in range(3))
    gb = side * side * 4e-9
    rates.add(f"add {label}", "GB/s", 3 * gb, lambda wrap: wrap(lambda: torch.add(x, y, out=z)))
    rates.add(f"gelu {label}", "GB/s", 2 * gb, lambda wrap: wrap(lambda: F.gelu(x)))


def attention(rates, dtype):
    """Forward and backward at 2048 tokens, 16 heads of 64, causal; flash attention where PyTorch has it for the type."""
    shape = (4, 16, 2048, 64)
    q, k, v = (torch.randn(shape, device=DEVICE, dtype=dtype, requires_grad=True) for _ in range(3))
    dy = torch.randn(shape, device=DEVICE, dtype=dtype)
    flops = 4 * 16 * 2048 * 2048 * 64  # of one product of all rows and keys, halved by the mask

    def both(wrap):
        forward = wrap(attend)
        return lambda: torch.autograd.grad(forward(q, k, v), (q, k, v), dy)

    rates.add("attention 4x2048x16x64", "GFLOP/s", 2e-9 * flops, lambda wrap: partial(wrap(attend), q, k, v))
    rates.add("attention forward and backward 4x2048x16x64", "GFLOP/s", 7e-9 * flops, both)


def adamw(parameters, rate):
    """In one kernel where PyTorch has it."""
    try:
        return torch.optim.AdamW(parameters, lr=rate, fused=True)
    except (TypeError, RuntimeError):  # before 2.0; on CPUs before 2.4
        return torch.optim.AdamW(parameters, lr=rate)


def training_step(optimizer, loss):
    def step():
        optimizer.zero_grad(set_to_none=True)
        loss().backward()
        optimizer.step()
    return step


def steps(rates, name, make, batch):
    if not rates.wants(name, "steps/s"):
        return
    channels, size, classes = IMAGES[name]
    model = make().to(DEVICE)
    optimizer = adamw(model.parameters(), 1e-3)
    x = torch.rand(batch, channels, size, size, device=DEVICE)
    y = torch.randint(classes, (batch,), device=DEVICE)
    rates.add(name, "steps/s", 1,
              lambda wrap: training_step(optimizer, wrap(lambda: F.cross_entropy(model(x), y))), step=True, batch=batch)


def language_steps(rates, seq):
    for name, rank in (("full step", 0), ("lora step", 8)):
        case = f"135M, {seq} tokens: {name}"
        if not rates.wants(case, "tokens/s"):
            continue
        model = Decoder(rank).to(DEVICE)
        optimizer = adamw([w for w in model.parameters() if w.requires_grad], 1e-4)
        tokens = torch.randint(49152, (1, seq + 1), device=DEVICE)

        def loss(model=model, tokens=tokens):
            return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())

        rates.add(case, "tokens/s", seq, lambda wrap: training_step(optimizer, wrap(loss)), step=True, tokens=seq)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--all", action="store_true", help="a CPU gets whole networks too")
    parser.add_argument("--full", action="store_true", help="a CPU gets what a GPU gets, and takes its time")
    parser.add_argument("--rounded", action="store_true", help="TF32, and f16 and bf16 among what is large")
    parser.add_argument("--eager", action="store_true", help="without torch.compile, which takes a while")
    parser.add_argument("--only", default="", help="cases whose name holds this")
    parser.add_argument("--limit", type=float, default=0, metavar="SECONDS", help="cases begin within that time")
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--images", nargs=3, metavar=("EXAMPLE", "COUNT", "FOLDER"))
    options = parser.parse_args()
    if options.images:
        write_images(options.images[0], int(options.images[1]), options.images[2])
        return
    torch.backends.cuda.matmul.allow_tf32 = options.rounded
    torch.backends.cudnn.allow_tf32 = options.rounded
    torch.manual_seed(1)
    if not CUDA:
        torch.set_num_threads(os.cpu_count())
    clock = per_thread if options.processor_time and not CUDA else time.perf_counter
    device = torch.cuda.get_device_name() if CUDA else f"CPU, {torch.get_num_threads()} threads"
    torch.ones(2, 2) @ torch.ones(2, 2)  # loads what products are by
    tell({"version": torch.__version__, "device": device, "cuda": CUDA, "blas": blas(), "tf32": CUDA and options.rounded})
    rates = Rates(options, clock)
    small = not (CUDA or options.full)
    f32 = [("", torch.float32)]
    narrow = [("f16 ", torch.float16), ("bf16 ", torch.bfloat16)]
    products(rates, (256, 512) if small else (256, 512, 768, 1024), f32)
    convolutions(rates)
    bandwidth(rates, 2048, "4M")
    steps(rates, "lenet", lenet, 64)
    if options.large:
        products(rates, (4096, 8192), f32 + narrow if options.rounded else f32)
        bandwidth(rates, 8192, "64M")
        attention(rates, torch.float16 if options.rounded else torch.float32)
    if options.all or not small:
        steps(rates, "resnet18", resnet18, 32 if CUDA else 8 if options.full else 1)
        language_steps(rates, 32 if small else 128)
    if options.large:
        language_steps(rates, 1024)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""graft beside what else there is on this machine, in one run: a table, or --json.

compare.py GRAFT [MODEL.gguf ...] [--torch PYTHON [--large] [--full] [--only REGEX] [--limit SECONDS]]
           [--processor-time] [--repeat N] [--json]

GRAFT is the command line tool. Beside it stand, where they are installed:
  ggml     products on its Vulkan backend (Debian: libggml0-backend-vulkan), by ggml_products.py
  llama.cpp's llama-bench with that backend, for each MODEL.gguf: prefill of 128 tokens, decode of 32
  PyTorch  of the interpreter given by --torch, by torch_rivals.py: on a CUDA device, else on the CPU; eager and, where
           torch.compile works, compiled. A CPU is asked small cases that begin within --limit seconds (120), --full
           asks it for a GPU's

Every figure is a rate, more is better; "times" is graft's over the other's. --processor-time: processor time per core
instead of the clock's, for software devices on a machine that others use too.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PRODUCTS = [(kind, n) for kind in ("f32", "q8_0", "q4_0") for n in (128, 1)]
PREFILL, DECODE = 128, 32
# llama-bench's: tokens of a prompt, tokens to write, tokens that stand before. Either tool writes after a prompt.
JOBS = ((PREFILL, 0, 0), (0, DECODE, PREFILL))


def say(*what):
    print(*what, file=sys.stderr, flush=True)


def run(command, talks=False, **environment):
    """Its output as JSON; None where it failed, which is said. `talks`: its messages are shown as they come."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=None if talks else subprocess.PIPE, text=True,
                          env={**os.environ, **environment}, check=False)
    if done.returncode != 0:
        say(f"{command[0]} failed: {'see above' if talks else done.stderr.strip()[-300:]}")
        return None
    return json.loads(done.stdout)


def children():
    """Processor seconds of the commands that were run so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Comparison:
    def __init__(self, options):
        self.options = options
        self.rows = []
        self.clock = ["--processor-time"] if options.processor_time else []
        self.caps = ["--caps", "rounded"] if options.rounded else []
        self.where = ["--device", options.device] if options.device else []
        self.flags = self.clock + self.where
        self.device = run([options.graft, "bench", "device", "--json", *self.where]) or {}

    def add(self, what, unit, graft, beside, other):
        if graft and other:
            self.rows.append({"what": what, "unit": unit, "graft": graft, "beside": beside, "other": other,
                              "times": graft / other})

    def bench_ops(self, part):
        say(f"graft: kernels whose name holds \"{part}\"" if part else "graft: all kernels")
        out = run([self.options.graft, "bench", "ops", "--json", "--alone", "--filter", part, "--repeat",
                   str(self.options.repeat), *self.flags, *self.caps])
        return {case["name"]: case for case in out["cases"]} if out else {}

    def products(self):
        say("ggml: products")
        specs = [f"{kind}:1536,576,{n}" for kind, n in PRODUCTS]
        theirs = run([sys.executable, os.path.join(HERE, "ggml_products.py"), "--json", "--repeat",
                      str(self.options.repeat), *specs])
        if theirs is None:
            return
        ours = self.bench_ops("1536x576")
        for product in theirs["products"]:
            kind, n = product["type"], product["n"]
            name = f"matmul NT {'' if kind == 'f32' else kind + ' '}{n}x1536x576"
            seconds = product["seconds"]
            if self.options.processor_time:
                seconds = product["processor_seconds"] / os.cpu_count()
            rate = 2e-9 * 1536 * 576 * n / seconds
            self.add(f"MUL_MAT {kind} m 1536 k 576 n {n}", "GFLOP/s", ours.get(name, {}).get("gflops"),
                     "ggml on Vulkan", rate)

    def llama_rates(self, model):
        """Tokens per second of llama-bench: (prefill, decode)."""
        def bench(repeat, prompt, decode, depth):
            before = children()
            out = run(["llama-bench", "-m", model, "-ngl", "99", "-o", "json", "-r", str(repeat), "-p",
                       str(prompt), "-n", str(decode), "-d", str(depth), "-t", str(os.cpu_count())],
                      GGML_VK_VISIBLE_DEVICES="0")
            return children() - before, out

        if not self.options.processor_time:
            runs = [bench(max(3, self.options.repeat // 2), *job)[1] for job in JOBS]
            return tuple(out[0]["avg_ts"] if out else None for out in runs)
        # What further runs cost: loading and compiling are in both.
        rates = []
        for prompt, decode, depth in JOBS:
            more = max(2, self.options.repeat // 2)
            once, first = bench(1, prompt, decode, depth)
            several, second = bench(1 + more, prompt, decode, depth)
            usable = first and second and several > once
            rates.append((prompt + decode) * more * os.cpu_count() / (several - once) if usable else None)
        return tuple(rates)

    def language_models(self):
        if self.options.models and shutil.which("llama-bench") is None:
            say("llama-bench is not installed (Debian sid: llama.cpp-tools); its models are left out.")
            return
        for gguf in self.options.models:
            say(f"graft and llama.cpp: {os.path.basename(gguf)}")
            with tempfile.TemporaryDirectory() as folder:
                model = os.path.join(folder, "model.graft")
                done = subprocess.run([self.options.graft, "convert", gguf, "-o", model], capture_output=True,
                                      text=True, check=False)
                if done.returncode != 0:
                    say(f"{gguf} was not converted: {done.stderr.strip()[-300:]}")
                    continue
                ours = run([self.options.graft, "bench", model, "--seq", str(PREFILL), "--decode", str(DECODE), "--json",
                            "--no-steps", "--repeat", str(max(3, self.options.repeat // 2)), *self.flags])
            if ours is None:
                continue
            rates = {row["name"]: row["tokens_per_second"] for row in ours["rows"]}
            prefill, decode = self.llama_rates(gguf)
            name = os.path.basename(gguf)
            self.add(f"{name}: prefill of {PREFILL}", "tokens/s", rates.get("prefill"), "llama.cpp on Vulkan", prefill)
            self.add(f"{name}: decode", "tokens/s", rates.get("decode"), "llama.cpp on Vulkan", decode)

    def seconds_of(self, command):
        """Of a command that must succeed; None where it does not."""
        before = children(), time.perf_counter()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        after = children(), time.perf_counter()
        if done.returncode != 0:
            say(f"{' '.join(command[:2])}: {done.stderr.strip()[-300:]}")
            return None
        if not self.options.processor_time:
            return after[1] - before[1]
        return (after[0] - before[0]) / os.cpu_count()

    def step_rate(self, example, batch, steps):
        """Training steps per second of a network that graft builds itself, on made-up images: what further ones cost."""
        say(f"graft: {example}, {steps} steps and three times as many")
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model.graft")
            train = [self.options.graft, "train", model, "--data", f"npy:{folder}/x.npy,{folder}/y.npy", "--batch",
                     str(batch), "-o", f"{folder}/out.graft", "--quiet", *self.where, "--steps"]
            rivals = os.path.join(HERE, "torch_rivals.py")
            times = [self.seconds_of(command) for command in
                     ([self.options.graft, "convert", "--example", example, "-o", f"{folder}/model.onnx"],
                      [self.options.graft, "convert", f"{folder}/model.onnx", "-o", model],
                      [self.options.torch, rivals, "--images", example, str(2 * batch), folder],
                      [*train, str(steps)], [*train, str(3 * steps)])]
        return 2 * steps / (times[-1] - times[-2]) if None not in times and times[-1] > times[-2] else None

    def language_step_rates(self, lengths):
        """Tokens per second of training steps of random weights in SmolLM2-135M's shape."""
        rates = {}
        if not lengths:
            return rates
        say(f"graft: language model of 135M, steps of {' and '.join(map(str, lengths))} tokens")
        with tempfile.TemporaryDirectory() as folder:
            gguf, model = os.path.join(folder, "model.gguf"), os.path.join(folder, "model.graft")
            for command in ([self.options.torch, os.path.join(HERE, "make_gguf.py"), "random", gguf, "--type", "f32"],
                            [self.options.graft, "convert", gguf, "-o", model]):
                if self.seconds_of(command) is None:
                    return rates
            for seq in lengths:
                out = run([self.options.graft, "bench", model, "--seq", str(seq), "--decode", "4", "--json", "--repeat",
                           "3", *self.flags])
                for row in out["rows"] if out else []:
                    rates[f'135M, {seq} tokens: {row["name"]}'] = row["tokens_per_second"]
        return rates

    def kernels(self, names):
        """graft's cases of these names: one by one where they are few, because running all takes a CPU long."""
        if self.options.ops or self.options.large:
            return self.bench_ops(self.options.ops)
        found = {}
        for name in names:
            found.update(self.bench_ops(name))
        return found

    def torch(self):
        if self.options.torch is None:
            return
        flags = [flag for flag in ("large", "full") if getattr(self.options, flag)]
        out = run([self.options.torch, os.path.join(HERE, "torch_rivals.py"), "--repeat", str(self.options.repeat), "--only",
                   self.options.only, "--limit", str(self.options.limit), *(f"--{flag}" for flag in flags), *self.clock],
                  talks=True)
        if out is None:
            return
        rates = out["rates"]
        # Operands of graft's are f32 in memory: those of matrix units stand beside PyTorch's 16-bit ones.
        rounded = self.options.rounded
        case_of = {name: name.replace(" bf16", "").replace(" f16", "") if rounded else name for name in rates}
        in_kernels = [name for name in rates if rates[name]["unit"] in ("GB/s", "GFLOP/s")]
        cases = self.kernels(sorted({case_of[name] for name in in_kernels})) if in_kernels else {}
        steps = {"lenet": 40, "resnet18": 8 if out["cuda"] else 2}
        language = self.language_step_rates(sorted({rates[name]["tokens"] for name in rates if "tokens" in rates[name]}))
        for name, rivals in rates.items():
            ours = language.get(name)
            case = case_of[name]
            if case in cases:
                ours = cases[case]["gbps" if rivals["unit"] == "GB/s" else "gflops"]
            elif name.startswith("attention forward and backward"):
                parts = [cases.get(name.replace(" forward and backward", kind)) for kind in ("", "_grad")]
                if None not in parts:
                    ours = 1e-9 * sum(p["flops"] for p in parts) / sum(p["median_s"] for p in parts)
            elif name in steps:
                ours = self.step_rate(name, rivals["batch"], steps[name])
            for how in ("eager", "compiled"):
                self.add(name, rivals["unit"], ours, f'PyTorch {out["version"]} {out["device"]}, {how}', rivals.get(how))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graft")
    parser.add_argument("models", nargs="*", metavar="MODEL.gguf")
    parser.add_argument("--torch", metavar="PYTHON", help="a Python interpreter that has PyTorch")
    parser.add_argument("--large", action="store_true", help="also what only a GPU should be asked")
    parser.add_argument("--full", action="store_true", help="PyTorch on a CPU gets what it gets on a GPU")
    parser.add_argument("--limit", type=float, default=120, metavar="SECONDS",
                        help="PyTorch's cases begin within that time (120; 0: no limit)")
    parser.add_argument("--device", help="a part of the name of the device that graft takes")
    parser.add_argument("--only", default="", help="of PyTorch's cases those whose name holds this")
    parser.add_argument("--ops", default="", help="of graft's kernels those whose name holds this (no pattern)")
    parser.add_argument("--rounded", action="store_true", help="graft may round operands of products to f16")
    parser.add_argument("--no-ggml", action="store_true", help="leave ggml and llama.cpp out")
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    comparison = Comparison(options)
    if not options.no_ggml:
        comparison.products()
        comparison.language_models()
    comparison.torch()
    device = {key: comparison.device.get(key) for key in ("device", "driver")}
    if options.json:
        print(json.dumps({**device, "processor_time": options.processor_time, "rows": comparison.rows}, indent=2))
        return
    print(f'{device["device"]}, {device["driver"]}; {"processor time per core" if options.processor_time else "clock"}\n')
    print(f'{"":46} {"graft":>10} {"":9} {"other":>10}   times')
    for r in comparison.rows:
        print(f'{r["what"]:46} {r["graft"]:10.2f} {r["unit"]:9} {r["other"]:10.2f} {r["times"]:6.2f}x  {r["beside"]}')


if __name__ == "__main__":
    main()

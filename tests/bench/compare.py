#!/usr/bin/env python3
"""graft beside what else is on this machine, in one run: a table, or --json; rows come on stderr as they are done.

compare.py GRAFT [MODEL.gguf ...] [--all] [--torch PYTHON [--large] [--full] [--only REGEX]] [--limit SECONDS]
           [--eager] [--processor-time] [--repeat N] [--json]

GRAFT is the command line tool. Beside it stand, where they are installed:
  ggml     products on its Vulkan backend (Debian: libggml0-backend-vulkan), by ggml_products.py
  llama.cpp's llama-bench with that backend, for each MODEL.gguf: prefill of 128 tokens, decode of 32
  PyTorch  (Debian: python3-torch) of the interpreter given by --torch, else of the first that has it, by
           torch_rivals.py: on a CUDA device, else on the CPU; eager and, where torch.compile works, compiled

Without --all a CPU is asked kernels and the training step of a small network, some minutes on two cores; with it also
ResNet-18 and a language model of 135M; --full asks it for a GPU's sizes. Nobody gets more than --limit seconds at once
(180; 900 with --all), graft neither: what is missing, fails or takes longer is a row that says so.

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
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RIVALS = os.path.join(HERE, "torch_rivals.py")
PRODUCTS = [(kind, n) for kind in ("f32", "q8_0", "q4_0") for n in (128, 1)]
PREFILL, DECODE = 128, 32
# llama-bench's: tokens of a prompt, tokens to write, tokens that stand before. Either tool writes after a prompt.
JOBS = ((PREFILL, 0, 0), (0, DECODE, PREFILL))
NETWORKS = ("lenet", "resnet18")


class Missing(Exception):
    """Why there is no figure."""


def say(*what):
    print(*what, file=sys.stderr, flush=True)


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1][:200] if lines else "it said nothing"


def has_torch(python):
    try:
        tried = subprocess.run([python, "-c", "import torch"], capture_output=True, timeout=120, check=False)
        return tried.returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def children():
    """Processor seconds of the commands that were run so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Comparison:
    def __init__(self, options):
        self.options = options
        self.rows = []
        self.clock = ["--processor-time"] if options.processor_time else []
        self.caps = ["--caps", "flexible"] if options.rounded else []
        self.where = ["--device", options.device] if options.device else []
        self.precision = ["--matmul-precision", "high"] if options.rounded else []  # of models; kernels have --caps
        self.flags = self.clock + self.where
        self.device = {}
        self.rival = ""  # of most rows, in full

    def run(self, command, **environment):
        """Its output. Missing where it fails or takes too long."""
        name = os.path.basename(command[1] if command[0] in (sys.executable, self.options.torch) else command[0])
        try:
            done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment},
                                  timeout=self.options.limit, check=False)
        except OSError as failure:
            raise Missing(f"{name} cannot be run: {failure.strerror}") from failure
        except subprocess.TimeoutExpired as late:
            raise Missing(f"{name} was stopped after {self.options.limit:.0f} s (--limit)") from late
        if done.returncode != 0:
            raise Missing(f"{name}: {last_line(done.stderr)}")
        return done.stdout

    def run_json(self, command, **environment):
        return json.loads(self.run(command, **environment))

    def add(self, what, unit, graft, beside, other, why=""):
        """`why`: what is missing. A row without either figure is said all the same."""
        times = graft / other if graft and other else None
        row = {"what": what, "unit": unit, "graft": graft, "beside": beside, "other": other, "times": times}
        self.rows.append({**row, "why": why} if why else row)
        say("row:", text_of(self.rows[-1]))

    def bench_ops(self, names, kept="f32"):
        """graft's cases whose names hold one of these, by name; operands and results kept as f32, f16 or bf16."""
        say(f"graft, {kept}: {', '.join(names)}")
        filters = [flag for name in names for flag in ("--filter", name)]
        out = self.run_json([self.options.graft, "bench", "ops", "--json", "--alone", *filters, "--repeat",
                             str(self.options.repeat), "--precision", kept, *self.flags, *self.caps])
        self.device = self.device or {key: out[key] for key in ("device", "driver")}
        return {case["name"]: case for case in out["cases"]}

    def products(self):
        beside = "ggml on Vulkan"
        say("ggml: products")
        specs = [f"{kind}:1536,576,{n}" for kind, n in PRODUCTS]
        try:
            theirs = self.run_json([sys.executable, os.path.join(HERE, "ggml_products.py"), "--json", "--repeat",
                                    str(self.options.repeat), *specs])
            ours = self.bench_ops(["1536x576"])
        except Missing as why:
            self.add("MUL_MAT m 1536 k 576", "GFLOP/s", None, beside, None, str(why))
            return
        for product in theirs["products"]:
            kind, n = product["type"], product["n"]
            name = f"matmul NT {'' if kind == 'f32' else kind + ' '}{n}x1536x576"
            seconds = product["seconds"]
            if self.options.processor_time:
                seconds = product["processor_seconds"] / os.cpu_count()
            rate = 2e-9 * 1536 * 576 * n / seconds
            self.add(f"MUL_MAT {kind} m 1536 k 576 n {n}", "GFLOP/s", ours.get(name, {}).get("gflops"), beside, rate)

    def llama_rates(self, model):
        """Tokens per second of llama-bench: (prefill, decode)."""
        def bench(repeat, prompt, decode, depth):
            before = children()
            out = self.run_json(["llama-bench", "-m", model, "-ngl", "99", "-o", "json", "-r", str(repeat), "-p",
                                 str(prompt), "-n", str(decode), "-d", str(depth), "-t", str(os.cpu_count())],
                                GGML_VK_VISIBLE_DEVICES="0")
            return children() - before, out

        if not self.options.processor_time:
            return [bench(max(3, self.options.repeat // 2), *job)[1][0]["avg_ts"] for job in JOBS]
        # What further runs cost: loading and compiling are in both.
        rates = []
        for prompt, decode, depth in JOBS:
            more = max(2, self.options.repeat // 2)
            once, several = bench(1, prompt, decode, depth)[0], bench(1 + more, prompt, decode, depth)[0]
            if several <= once:
                raise Missing("further runs of llama-bench took no time")
            rates.append((prompt + decode) * more * os.cpu_count() / (several - once))
        return rates

    def language_models(self):
        beside = "llama.cpp on Vulkan"
        for gguf in self.options.models:
            name = os.path.basename(gguf)
            say(f"graft and llama.cpp: {name}")
            try:
                if shutil.which("llama-bench") is None:
                    raise Missing("llama-bench is not installed (Debian sid: llama.cpp-tools)")
                with tempfile.TemporaryDirectory() as folder:
                    model = os.path.join(folder, "model.graft")
                    self.run([self.options.graft, "convert", gguf, "-o", model])
                    ours = self.run_json([self.options.graft, "bench", model, "--seq", str(PREFILL), "--decode",
                                          str(DECODE), "--json", "--no-steps", "--repeat",
                                          str(max(3, self.options.repeat // 2)), *self.flags])
                theirs = self.llama_rates(gguf)
            except Missing as why:
                self.add(name, "tokens/s", None, beside, None, str(why))
                continue
            rates = {row["name"]: row["tokens_per_second"] for row in ours["rows"]}
            self.add(f"{name}: prefill of {PREFILL}", "tokens/s", rates.get("prefill"), beside, theirs[0])
            self.add(f"{name}: decode", "tokens/s", rates.get("decode"), beside, theirs[1])

    def seconds_of(self, command):
        before = children(), time.perf_counter()
        self.run(command)
        if not self.options.processor_time:
            return time.perf_counter() - before[1]
        return (children() - before[0]) / os.cpu_count()

    def step_rate(self, example, batch, steps):
        """Training steps per second of an example of graft's, on made-up images: what more of them cost."""
        say(f"graft: {example}, {steps} steps and three times as many")
        with tempfile.TemporaryDirectory() as folder:
            model = os.path.join(folder, "model.graft")
            train = [self.options.graft, "train", model, "--data", f"npy:{folder}/x.npy,{folder}/y.npy", "--batch",
                     str(batch), "-o", f"{folder}/out.graft", "--quiet", *self.where, *self.precision, "--steps"]
            for command in ([self.options.graft, "convert", "--example", example, "-o", f"{folder}/model.onnx"],
                            [self.options.graft, "convert", f"{folder}/model.onnx", "-o", model],
                            [self.options.torch, RIVALS, "--images", example, str(2 * batch), folder],
                            [*train, "1"]):  # what is compiled and tested is kept for the two that are timed
                self.run(command)
            few, many = (self.seconds_of([*train, str(n)]) for n in (steps, 3 * steps))
        if many <= few:
            raise Missing("further steps of graft took no time")
        return 2 * steps / (many - few)

    def language_step_rates(self, seq):
        """Tokens per second of training steps of random weights in SmolLM2-135M's shape."""
        say(f"graft: language model of 135M, steps of {seq} tokens")
        with tempfile.TemporaryDirectory() as folder:
            gguf, model = os.path.join(folder, "model.gguf"), os.path.join(folder, "model.graft")
            self.run([self.options.torch, os.path.join(HERE, "make_gguf.py"), "random", gguf, "--type", "f32"])
            self.run([self.options.graft, "convert", gguf, "-o", model])
            out = self.run_json([self.options.graft, "bench", model, "--seq", str(seq), "--decode", "4", "--json",
                                 "--repeat", "3", *self.flags, *self.precision])
        return {f'135M, {seq} tokens: {row["name"]}': row["tokens_per_second"] for row in out["rows"]}

    def rivals_of_torch(self):
        """What torch_rivals.py says of itself, and its cases as they come; a hanging one ends them."""
        flags = [flag for flag in ("large", "full", "all", "rounded", "eager") if getattr(self.options, flag)]
        limit = 1.25 * self.options.limit  # it ends by itself before, unless one case hangs
        command = [self.options.torch, RIVALS, "--repeat", str(self.options.repeat), "--only", self.options.only,
                   "--limit", str(self.options.limit), *(f"--{flag}" for flag in flags), *self.clock]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            late = threading.Event()
            timer = threading.Timer(limit, lambda: (late.set(), process.kill()))
            timer.start()
            lines = [json.loads(line) for line in process.stdout if line.endswith("\n")]
            timer.cancel()
        why = f"was stopped after {limit:.0f} s (--limit)" if late.is_set() else f"ended with {process.returncode}"
        if not lines:
            raise Missing(f"torch_rivals.py {why}")
        if process.returncode != 0:
            lines.append({"name": "further cases", "unit": "", "why": f"torch_rivals.py {why}"})
        rates = {}
        for line in lines[1:]:
            rates.setdefault(line["name"], {}).update(line)
        return lines[0], rates

    def kept_as(self, name):
        """The type in which graft keeps what PyTorch's case of this name has in it."""
        for kept in ("bf16", "f16"):
            if f" {kept} " in name:
                return kept
        return "f16" if self.options.rounded and name.startswith("attention") else "f32"

    def ours_in_kernels(self, rates):
        """Rates of graft's kernels by the names of PyTorch's cases."""
        ours = {}
        timed = [name for name in rates if rates[name]["unit"] in ("GB/s", "GFLOP/s")]
        for kept in ("f32", "f16", "bf16"):
            case_of = {name: name.replace(f" {kept} ", " ") for name in timed if self.kept_as(name) == kept}
            if not case_of:
                continue
            parts = {name: [name.replace(" forward and backward", kind) for kind in ("", "_grad")] for name in case_of
                     if name.startswith("attention forward and backward")}
            wanted = sorted({case for name, case in case_of.items() if name not in parts}.union(*parts.values()))
            cases = self.bench_ops([self.options.ops] if self.options.ops else wanted, kept)
            for name, case in case_of.items():
                if case in cases:
                    ours[name] = cases[case]["gbps" if rates[name]["unit"] == "GB/s" else "gflops"]
                elif name in parts and all(p in cases for p in parts[name]):
                    both = [cases[p] for p in parts[name]]
                    ours[name] = 1e-9 * sum(p["flops"] for p in both) / sum(p["median_s"] for p in both)
        return ours

    def torch(self):
        if self.options.torch is None:
            self.add("kernels and training steps", "", None, "PyTorch", None,
                     "no interpreter here has it (Debian: python3-torch; --torch PYTHON names another)")
            return
        try:
            about, rates = self.rivals_of_torch()
        except Missing as why:
            self.add("kernels and training steps", "", None, "PyTorch", None, str(why))
            return
        # Debian's package alone comes with the BLAS that is right rather than fast: not what PyTorch can do.
        named, hint = about["blas"], " (the reference BLAS; libopenblas0 is faster)"
        slow = hint if named.startswith("libblas") and "openblas" not in named else ""
        library = f", products by {named}{slow}" if named else ""
        self.rival = f'PyTorch {about["version"]}, {about["device"]}{library}{", TF32" if about["tf32"] else ""}'
        known = {name: rate for name, rate in rates.items() if "why" not in rate}
        jobs = [([name for name in known if known[name]["unit"] in ("GB/s", "GFLOP/s")],
                 lambda names: self.ours_in_kernels({name: known[name] for name in names}))]
        for name in (name for name in known if name in NETWORKS):
            batch, steps = known[name]["batch"], max(2, round(self.options.stepping * known[name]["eager"]))
            jobs.append(([name], lambda names, batch=batch, steps=steps: {
                names[0]: self.step_rate(names[0], batch, steps)}))
        jobs += [([name for name in known if known[name].get("tokens") == seq],
                  lambda names, seq=seq: self.language_step_rates(seq))
                 for seq in sorted({rate["tokens"] for rate in known.values() if "tokens" in rate})]
        for names, job in jobs:
            ours, why = {}, "graft has no such case"
            try:
                ours = job(names) if names else {}
            except Missing as failure:
                why = str(failure)
            for name in names:
                for how in ("eager", "compiled"):
                    lacks = known[name].get(f"{how}_why", "")
                    if how in known[name] or lacks:
                        self.add(name, known[name]["unit"], ours.get(name), f"PyTorch, {how}", known[name].get(how),
                                 lacks if name in ours else why)
        for name in rates.keys() - known.keys():
            self.add(name, rates[name]["unit"], None, "PyTorch", None, rates[name]["why"])


def text_of(row):
    figures = [f"{row[of]:10.2f}" if row[of] else f'{"-":>10}' for of in ("graft", "other")]
    times = f'{row["times"]:6.2f}x' if row["times"] else f'{"-":>7}'
    why = f': {row["why"]}' if "why" in row else ""
    return f'{row["what"]:42} {figures[0]} {figures[1]} {row["unit"]:9} {times}  {row["beside"]}{why}'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("graft")
    parser.add_argument("models", nargs="*", metavar="MODEL.gguf")
    parser.add_argument("--all", action="store_true", help="also whole networks, which take a CPU long")
    parser.add_argument("--torch", metavar="PYTHON", help="a Python interpreter that has PyTorch")
    parser.add_argument("--large", action="store_true", help="also what only a GPU should be asked")
    parser.add_argument("--full", action="store_true", help="PyTorch on a CPU gets what it gets on a GPU")
    parser.add_argument("--limit", type=float, metavar="SECONDS",
                        help="what one command may take, and all cases of PyTorch (180; 900 with --all or --full)")
    parser.add_argument("--device", help="a part of the name of the device that graft takes")
    parser.add_argument("--only", default="", help="of PyTorch's cases those whose name this finds (a pattern)")
    parser.add_argument("--ops", default="", help="of graft's kernels those whose name holds this (no pattern)")
    parser.add_argument("--rounded", action="store_true",
                        help="graft may round operands of products to f16, PyTorch to TF32, f16 and bf16")
    parser.add_argument("--eager", action="store_true", help="PyTorch without torch.compile, which takes a while")
    parser.add_argument("--no-ggml", action="store_true", help="leave ggml and llama.cpp out")
    parser.add_argument("--no-torch", action="store_true", help="leave PyTorch out")
    parser.add_argument("--stepping", type=float, default=2.0, metavar="SECONDS",
                        help="what PyTorch takes for the training steps of graft's first run; its second is of three "
                             "times as many (2)")
    parser.add_argument("--processor-time", action="store_true")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.limit is None:
        options.limit = 900 if options.all or options.full else 180
    if options.torch is None and not options.no_torch:
        options.torch = next((python for python in (sys.executable, "/usr/bin/python3") if has_torch(python)), None)
    begin = time.perf_counter()
    comparison = Comparison(options)
    if not options.no_ggml:
        comparison.products()
        comparison.language_models()
    if not options.no_torch:
        comparison.torch()
    device, clock = comparison.device, "processor time per core" if options.processor_time else "clock"
    if options.json:
        print(json.dumps({**device, "processor_time": options.processor_time, "rival": comparison.rival,
                          "rows": comparison.rows}, indent=2))
        return
    say(f"{time.perf_counter() - begin:.0f} s in all")
    print(f'graft: {", ".join(device.values()) or "no kernel was measured"}; {clock}')
    if comparison.rival:
        print(f"beside {comparison.rival}")
    load, cores = os.getloadavg()[1], os.cpu_count()  # of the last minutes, which were these
    if load > 1.5 * cores and not options.processor_time:
        print(f"The machine was busy (load {load:.0f} on {cores} cores): these are not its rates; see --processor-time.")
    print()
    print(f'{"":42} {"graft":>10} {"other":>10} {"":9} {"times":>7}')
    for row in comparison.rows:
        print(text_of(row))


if __name__ == "__main__":
    main()

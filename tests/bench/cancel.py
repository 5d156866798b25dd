#!/usr/bin/env python3
"""How soon graft_cancel takes effect, and that it changes no bit.

  python3 tests/bench/cancel.py PACKAGE GRAFT [--instants 1000] [--language MODEL] [--seed 1]

PACKAGE: the folder that holds graft/ (build/dev/platform/python). GRAFT: the command line tool. A second thread cancels at
random instants of training, running (in slices of 2 ms) and, with --language, generating; the main thread asks again until each call is done. Prints, for each,
how often a call was cancelled and how long it took from the cancel to the call's end: median, 99 %, longest; and the call's own
time, undisturbed. Weights, outputs and texts are compared with those of runs that nobody disturbed.
"""
import argparse
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time


class Canceller:
    """Cancels once for each call, at a random instant of it."""

    def __init__(self, context, longest, seed):
        self.context, self.longest, self.random = context, longest, random.Random(seed)
        self.begun, self.over = threading.Event(), False
        self.at = None
        self.thread = threading.Thread(target=self.work, daemon=True)
        self.thread.start()

    def work(self):
        while True:
            self.begun.wait()
            self.begun.clear()
            if self.over:
                return
            time.sleep(self.random.uniform(0, self.longest))
            self.at = time.perf_counter()
            self.context.cancel()

    def during(self, call, cancelled):
        """Calls until it is done; the times from a cancel to the call's end."""
        late = []
        while True:
            self.at = None
            self.context.uncancel()  # one that came after the call before
            self.begun.set()
            try:
                return call(), late
            except cancelled:
                if self.at is not None:
                    late.append(time.perf_counter() - self.at)

    def end(self):
        self.over = True
        self.begun.set()
        self.thread.join()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", type=pathlib.Path)
    parser.add_argument("tool", type=pathlib.Path)
    parser.add_argument("--instants", type=int, default=1000, help="cancelled calls in all")
    parser.add_argument("--language", type=pathlib.Path, help="a language model, a .graft file")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    sys.path.insert(0, str(args.package.resolve()))
    import graft
    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        tool = args.tool.resolve()
        for command in (["--example", "lenet", "-o", "lenet.onnx"], ["lenet.onnx", "-o", "lenet.graft"]):
            subprocess.run([tool, "convert", *command], cwd=folder, check=True, capture_output=True)
        context = graft.Context()
        model = context.load(folder / "lenet.graft")
        numbers = np.random.default_rng(args.seed)
        x = numbers.standard_normal((64, *model.inputs[0].shape[1:]), dtype=np.float32)
        y = numbers.integers(0, 10, 64).astype(np.int32)

        def training():
            trainer = model.trainer(batch=64, micro_batch=16, learning_rate=1e-3, seed=3)
            return lambda: trainer.step(x, y), lambda: b"".join(a.tobytes() for _, a in sorted(trainer.state_dict().items()))

        def running():
            context.set_pace(slice_ms=2)
            session = model.session({"batch": 1024})
            images = {model.inputs[0].name: np.tile(x, (16, 1, 1, 1))}
            found = {}

            def run():
                found.update(session.run(images))

            return run, lambda: b"".join(np.ascontiguousarray(found[k]).tobytes() for k in sorted(found))

        def generating():
            context.set_pace()
            generator = context.load(args.language.resolve()).generator()
            said = []

            def say():
                said[:] = [generator.generate("Once upon a time", max_tokens=100, temperature=1, seed=args.seed)]

            return say, lambda: said[0].encode()

        kinds = [("train", training), ("run", running)] + [("generate", generating)] * (args.language is not None)
        print(f"{context.device_name}, {args.instants} cancelled calls of each; milliseconds")
        print(f"{'':8} {'cancelled':>9} {'calls':>6} {'a call':>8} {'median':>8} {'99 %':>8} {'longest':>8}  bits")
        for name, make in kinds:
            call, result = make()
            times = []
            for _ in range(12):
                start = time.perf_counter()
                call()
                times.append(time.perf_counter() - start)
            own = sorted(times)[len(times) // 2]
            late, done = [], 0
            disturbed, disturbed_result = make()
            canceller = Canceller(context, own, args.seed)
            while len(late) < args.instants:
                late += canceller.during(disturbed, graft.Cancelled)[1]
                done += 1
            canceller.end()
            undisturbed, expected = make()
            for _ in range(done):
                undisturbed()
            same = "the same" if disturbed_result() == expected() else "OTHERS"
            late.sort()
            ms = [1e3 * t for t in (own, late[len(late) // 2], late[int(0.99 * (len(late) - 1))], late[-1])]
            print(f"{name:8} {len(late):9} {done:6} {ms[0]:8.2f} {ms[1]:8.2f} {ms[2]:8.2f} {ms[3]:8.2f}  {same}", flush=True)
            if same != "the same":
                sys.exit(1)


if __name__ == "__main__":
    main()

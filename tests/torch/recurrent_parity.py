"""Compares recurrent networks with PyTorch: forward, gradients of every parameter and input, training curves.

Usage: recurrent_parity.py GRAFT [CASE ...]     (GRAFT: the command line tool; run with a Python that has torch and onnx)

Exit status: 0 all agree, 1 some do not, 77 torch is not installed (ctest counts that as skipped).
"""

import os
import sys
import tempfile
import warnings

try:
    import numpy as np
    import torch
    from torch import nn
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

import parity
from parity import Report, check_curve, check_gradients, error, graft

# Sums of a few hundred products, step after step: both sides are off by some 1e-7 of what comes out.
parity.FORWARD_TOLERANCE = 1e-5
parity.GRADIENT_TOLERANCE = 1e-4
STEPS, FEATURES = 12, 6


class Classifier(nn.Module):
    """A recurrent layer or several over [batch, steps, features], and a head on what `reads` makes of their results."""

    def __init__(self, kind, hidden=16, reads="last", **options):
        super().__init__()
        self.layers = kind(FEATURES, hidden, batch_first=True, **options)
        self.reads = reads
        directions = 2 if options.get("bidirectional") else 1
        self.head = nn.Linear(hidden * directions, 10)

    def forward(self, x, lengths=None):
        if lengths is not None:
            x = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=True)
        y, state = self.layers(x)
        if lengths is not None:
            y, _ = pad_packed_sequence(y, batch_first=True)
        if self.reads == "last":
            state = state[0] if isinstance(state, tuple) else state
            return self.head(state[-1])
        return self.head(y.mean(dim=1))


class Primed(nn.Module):
    """A state before the first step that depends on the size of the batch, and one that is learnt."""

    def __init__(self):
        super().__init__()
        self.layers = nn.LSTM(FEATURES, 9, bidirectional=True)
        self.first = nn.Parameter(torch.randn(2, 1, 9))
        self.head = nn.Linear(18, 10)

    def forward(self, x):
        c = torch.zeros(2, x.shape[0], 9)
        y, _ = self.layers(x.transpose(0, 1), (self.first.expand(-1, x.shape[0], -1).contiguous(), c))
        return self.head(y[-1] + y[0])


def sequences(batch=4):
    return torch.randn(batch, STEPS, FEATURES)


def case(*arguments, **options):
    return lambda: (Classifier(*arguments, **options), [sequences()])


def lengths_case(kind, **options):
    return lambda: (Classifier(kind, reads="mean", **options), [sequences(), torch.tensor([12, 9, 4, 1])])


NETWORKS = {
    "lstm": case(nn.LSTM),
    "lstm_bidirectional": case(nn.LSTM, reads="mean", bidirectional=True),
    "lstm_stacked": case(nn.LSTM, num_layers=2, bidirectional=True, reads="mean", hidden=10),
    "lstm_lengths": lengths_case(nn.LSTM, bidirectional=True),
    "lstm_primed": lambda: (Primed(), [sequences()]),
    "lstm_no_bias": case(nn.LSTM, bias=False, hidden=7),
    "gru": case(nn.GRU),
    "gru_stacked": case(nn.GRU, num_layers=2, bidirectional=True, reads="mean"),
    "gru_lengths": lengths_case(nn.GRU, bidirectional=True),
    "rnn": case(nn.RNN),
    "rnn_relu_stacked": case(nn.RNN, nonlinearity="relu", num_layers=2, reads="mean", bidirectional=True),
}
CURVES = {"lstm": "adamw", "lstm_bidirectional": "momentum", "lstm_stacked": "adamw", "gru_stacked": "adamw", "rnn": "sgd"}


def check_open_sequence(report):
    """Exported with open axes of batch and time, and run with others than it was exported with."""
    torch.manual_seed(3)
    model = Classifier(nn.LSTM, num_layers=2, bidirectional=True, reads="mean").eval()
    with tempfile.TemporaryDirectory() as folder:
        torch.onnx.export(model, sequences(), f"{folder}/net.onnx", input_names=["input0"], output_names=["output"],
                          dynamic_axes={"input0": {0: "batch", 1: "seq"}, "output": {0: "batch"}}, opset_version=14)
        graft("convert", f"{folder}/net.onnx", "-o", f"{folder}/net.graft")
        for batch, steps in ((1, 30), (5, 3)):
            x = torch.randn(batch, steps, FEATURES)
            np.save(f"{folder}/x.npy", x.numpy())
            graft("run", f"{folder}/net.graft", "--input", f"input0={folder}/x.npy", "--out", f"{folder}/out")
            with torch.no_grad():
                expected = model(x).numpy()
            report.check("open sequence", f"forward of {batch} rows, {steps} steps",
                         error(np.load(f"{folder}/out/output.npy"), expected), parity.FORWARD_TOLERANCE)


def main():
    parity.GRAFT = os.path.abspath(sys.argv[1])
    wanted = sys.argv[2:]
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    report = Report()
    for name, make in NETWORKS.items():
        if not wanted or name in wanted:
            # With packed sequences torch writes the batch that it traced into the state of zeros.
            check_gradients(report, name, make, train_mode=False, open_batch="lengths" not in name)
    for name, kind in CURVES.items():
        if not wanted or name in wanted:
            check_curve(report, name, NETWORKS[name], kind)
    if not wanted or "open_sequence" in wanted:
        check_open_sequence(report)
    print("all agree" if report.failures == 0 else f"{report.failures} do not agree")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())

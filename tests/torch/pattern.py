"""What the files of patterns share. See patterns.py."""

import collections

OPSETS = (13, 14, 15, 16, 17)

# ops: {op of graft: how many}.
Pattern = collections.namedtuple("Pattern", "module inputs ops opsets", defaults=(OPSETS,))
# A graph made by hand, where PyTorch has no spelling of it. model: the ONNX file; inputs, expected: arrays by name.
Handmade = collections.namedtuple("Handmade", "model inputs expected ops")

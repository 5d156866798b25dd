"""What the files of patterns share. See patterns.py."""

import collections

OPSETS = (13, 14, 15, 16, 17)

# ops: {op of graft: how many}. trained: elements that graft has to train, where that is not all of the module's parameters.
Pattern = collections.namedtuple("Pattern", "module inputs ops opsets trained", defaults=(OPSETS, None))
# A graph made by hand, where PyTorch has no spelling of it. model: the ONNX file; inputs, expected: arrays by name.
Handmade = collections.namedtuple("Handmade", "model inputs expected ops")

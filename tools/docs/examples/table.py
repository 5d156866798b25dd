"""Writes table.onnx, a network for three numbers, for docs/how-to/train-on-a-table.md (PyTorch)."""

import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
torch.onnx.export(model, torch.zeros(1, 3), "table.onnx", input_names=["row"], output_names=["logits"],
                  dynamic_axes={"row": {0: "batch"}, "logits": {0: "batch"}})

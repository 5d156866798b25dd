"""graft runs and fine-tunes neural networks as Vulkan compute shaders.

    model = graft.load("digits.graft")
    logits = model.run({"image": images})["logits"]
    trainer = model.trainer(learning_rate=1e-3, batch=64)
    metrics = trainer.step(images, labels)

Arrays are numpy's, row-major, with the source model's names, shapes and order of axes; whatever numpy takes without a
loss goes in, tensors of PyTorch on the CPU as well.
"""

from ._convert_models import ConvertReport, ExportReport, convert, convert_adapter, export, write_imatrix
from ._errors import (Cancelled, Corrupt, DeviceError, DeviceLost, Error, Internal, InvalidArgument, IoError, NotFound,
                      OutOfMemory, Timeout, Unsupported)
from ._generator import Embedder, Generated, Generator, Importance, ImportanceMatrix, Tokenizer
from ._graft import __version__
from ._model import Context, Model, Session, load
from ._tensors import InputFormat, Memory, TensorInfo
from ._trainer import CheckpointInfo, Forecast, Metrics, Trainer

__all__ = [
    "Cancelled", "CheckpointInfo", "Context", "ConvertReport", "Corrupt", "DeviceError", "DeviceLost", "Embedder", "Error", "ExportReport", "Forecast", "Generated", "Generator",
    "Importance", "ImportanceMatrix", "InputFormat", "Internal", "InvalidArgument", "IoError", "Memory", "Metrics", "Model", "NotFound", "OutOfMemory", "Session",
    "TensorInfo", "Timeout", "Tokenizer", "Trainer", "Unsupported", "__version__", "convert", "convert_adapter", "export", "load",
    "write_imatrix"
]

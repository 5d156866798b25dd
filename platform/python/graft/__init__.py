"""graft runs and fine-tunes neural networks as Vulkan compute shaders.

    model = graft.load("digits.graft")
    logits = model.run({"image": images})["logits"]
    trainer = model.trainer(learning_rate=1e-3, batch=64)
    metrics = trainer.step(images, labels)

Arrays are numpy's, row-major, with the source model's names, shapes and order of axes; whatever numpy takes without a
loss goes in, tensors of PyTorch on the CPU as well.
"""

from ._convert_models import ConvertReport, ExportReport, convert, convert_adapter, export, write_imatrix
from ._data import Comparison, DataSet, Evaluation, Field, GateResult, GateRow, Loader, Verdict, metric_names
from ._delta import Averager, Delta, DeltaInfo, Server, privacy
from ._errors import (Cancelled, Corrupt, DeviceError, DeviceLost, Error, Internal, InvalidArgument, IoError, NotFound,
                      OutOfMemory, Timeout, Unsupported)
from ._generator import Embedder, Generated, Generator, Importance, ImportanceMatrix, Tokenizer
from ._group import Group, ThreadGroup
from ._inspection import Damage, Device, KernelVerdict, Layer, NodeVerdict, Plan, Snapshot, Store, devices
from ._memory import Added, MemoryFile, MemoryInfo, Record
from ._model import Context, Model, Session, load
from ._tensors import InputFormat, Memory, TensorInfo
from ._c import graft_version
from ._trainer import CheckpointInfo, Cipher, Forecast, Metrics, StepInfo, Trainer

__version__: str = graft_version().decode()

__all__ = [
    "Added", "Averager", "Cancelled", "CheckpointInfo", "Cipher", "Comparison", "Context", "ConvertReport", "Corrupt",
    "Damage", "DataSet", "Delta", "DeltaInfo", "Device", "DeviceError", "DeviceLost", "Embedder", "Error",
    "Evaluation", "ExportReport", "Field", "Forecast", "GateResult", "GateRow", "Generated", "Generator", "Group",
    "Importance", "ImportanceMatrix", "InputFormat", "Internal", "InvalidArgument", "IoError", "KernelVerdict",
    "Layer", "Loader", "Memory", "MemoryFile", "MemoryInfo", "Metrics", "Model", "NodeVerdict", "NotFound", "OutOfMemory", "Plan", "Record", "Server",
    "Session", "Snapshot", "StepInfo", "Store", "TensorInfo", "ThreadGroup", "Timeout", "Tokenizer", "Trainer",
    "Unsupported", "Verdict", "__version__", "convert", "convert_adapter", "devices", "export", "load",
    "metric_names", "privacy", "write_imatrix"
]

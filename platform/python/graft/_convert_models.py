"""Conversion of other programs' models, PyTorch's among them."""

from __future__ import annotations

import copy
import ctypes
import inspect
import json
import os
import tempfile
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from ._c import ImportanceMatrix
from ._errors import Error, Unsupported, error_of
from ._library import text_of


class ConvertReport(NamedTuple):
    """What became of every operator, and what can be trained."""

    text: str  #: a table
    details: dict[str, Any]  #: the same, as `graft convert --json` gives it

    def __str__(self) -> str:
        return self.text


def convert(source: Any, example_inputs: Any = None, output: Optional[Union[str, "os.PathLike[str]"]] = None, *,
            input_names: Optional[Sequence[str]] = None, output_names: Optional[Sequence[str]] = None,
            dynamic_axes: Optional[Mapping[str, Mapping[int, str]]] = None, opset: int = 14,
            bindings: Optional[Mapping[str, int]] = None, constants: Sequence[str] = (), parameters: Sequence[str] = (),
            quantize: str = "", expand: bool = False,
            imatrix: Optional[Union[str, "os.PathLike[str]"]] = None) -> ConvertReport:
    """Writes `output`, a .graft file, from a module of PyTorch, an ONNX file, a GGUF file or a Hugging Face folder.

    source: a torch.nn.Module, or a path. A module is exported through ONNX in the mode that it is in, and stays as it is;
        parameters keep their names, and those that do not require gradients are frozen.
    example_inputs: for a module: a tensor, or several, with which it is traced. Their first axes become the dimension
        "batch", as do those of outputs of that size; dynamic_axes names others, as in {"tokens": {1: "seq"}}.
    input_names, output_names: for a module; by default the names of forward's arguments, and "output" or "output0", ...
    bindings: sizes of named dimensions; the others stay open. constants, parameters: patterns ("*", "?") of tensors of an
        ONNX file that are not trained, and of some that are although they look like constants.
    quantize: matrices of a language model become "q8_0", "q4_0", ...; expand: quantized ones become float32. imatrix: with
        quantize, an importance matrix by which scales of blocks are searched; details["blocks"] has each matrix's error.

    Unsupported: an operator that graft does not have; the error's `report` then names all problems.
    """
    if output is None:
        raise TypeError("convert() needs the path of the .graft file to write: output=...")
    options: dict[str, Any] = dict(bindings=bindings, constants=constants, parameters=parameters, quantize=quantize, expand=expand,
                                   imatrix=imatrix)
    if isinstance(source, (str, os.PathLike)):
        return _convert_file(source, output, **options)
    if not callable(getattr(source, "named_parameters", None)):
        raise TypeError(f"convert() takes a module of PyTorch or a path, and {type(source).__name__} is neither.")
    if example_inputs is None:
        raise TypeError("convert() traces a module with example_inputs, and there are none.")
    with tempfile.TemporaryDirectory(prefix="graft_convert_") as folder:
        path = os.path.join(folder, f"{type(source).__name__}.onnx")
        _export(source, example_inputs, path, input_names, output_names, dynamic_axes or {}, opset)
        frozen = [name for name, parameter in source.named_parameters() if not parameter.requires_grad]
        options["constants"] = [*constants, *frozen]
        return _convert_file(path, output, **options)


class ExportReport(NamedTuple):
    """What export() wrote."""

    files: list[str]
    tensors: int
    bytes: int  #: of the tensors
    notes: list[str]  #: what one should know, a sentence each
    #: Of matrices that were made blocks: "name", "dtype", "error" beside the numbers, "weighted_error" where there was
    #: an importance matrix.
    blocks: Sequence[Mapping[str, Any]] = ()


def export(model: Union[str, "os.PathLike[str]"], output: Union[str, "os.PathLike[str]"], *, format: str = "",
           dtype: str = "", source: Optional[Union[str, "os.PathLike[str]"]] = None,
           allow_non_finite: bool = False, imatrix: Optional[Union[str, "os.PathLike[str]"]] = None) -> ExportReport:
    """Writes a .graft file, of a model or of adapters, in a format of other programs, with the names that it came with.

    format: "gguf", "safetensors" (the parameters of any model), "onnx", or "folder" as Hugging Face has them (of adapters,
        as PEFT does); by default as the output's name ends. dtype: what matrices become, "f16", "q8_0", ...
    source: for "onnx": the file that the model was converted from, whose graph stays.
    imatrix: for blocks of GGUF files: an importance matrix, by which scales are searched.
    """
    c = _converter()
    options = c.ExportOptions(format=format, dtype=dtype, source=source, allow_non_finite=allow_non_finite, imatrix=imatrix)
    return ExportReport(**json.loads(_converted(c.graft_export, text_of(model), options, text_of(output)).json))


def write_imatrix(model: Union[str, "os.PathLike[str]"], importance: Any, output: Union[str, "os.PathLike[str]"], *,
                  datasets: Sequence[str] = ()) -> None:
    """Writes what Model.importance() found out, for the .graft file `model`, as an importance matrix of llama.cpp's form.

    datasets: where the texts are from, which the file says. The file is for imatrix of convert() and export().
    """
    c = _converter()
    sums = [np.ascontiguousarray(one.sums, "float64") for one in importance.matrices]
    matrices = [ImportanceMatrix(name=one.name, sums=own.ctypes.data_as(ctypes.POINTER(ctypes.c_double)), columns=len(own), tokens=one.tokens)
                for one, own in zip(importance.matrices, sums)]
    options = c.ImatrixOptions(matrices=matrices, datasets=datasets, chunks=importance.chunks, context=importance.context)
    _converted(c.graft_write_imatrix, text_of(model), options, text_of(output))


def convert_adapter(source: Union[str, "os.PathLike[str]"], base: Union[str, "os.PathLike[str]"],
                    output: Union[str, "os.PathLike[str]"]) -> None:
    """Writes `output`, a .graft file for load_adapters(), from a PEFT folder or a GGUF file, for the model file `base`."""
    _converted(_converter().graft_convert_adapter, text_of(source), text_of(base), text_of(output))


def _converter() -> Any:
    """The converter's library, which only those load who convert."""
    try:
        from . import _c_convert
    except ImportError as missing:
        raise Unsupported(f"This build of graft has no converter: {missing}") from None
    return _c_convert


class _Report(NamedTuple):
    text: str
    json: str


def _converted(function: Any, *arguments: Any) -> _Report:
    """What a conversion reports; a failure is raised, with the report in it."""
    c, made = _converter(), ctypes.c_void_p()
    status = function(*arguments, ctypes.byref(made))
    try:
        report = _Report(c.graft_conversion_report(made).decode("utf-8", "replace"), c.graft_conversion_report_json(made).decode())
        if status:
            failed: Error = error_of(status, c.graft_conversion_message(made).decode("utf-8", "replace"))
            failed.report = ConvertReport(report.text, json.loads(report.json or "{}"))  # type: ignore[attr-defined]
            raise failed
        return report
    finally:
        c.graft_conversion_destroy(made)


def _convert_file(path: Any, output: Any, **options: Any) -> ConvertReport:
    c = _converter()
    report = _converted(c.graft_convert, text_of(path), c.ConvertOptions(**options), text_of(output))
    return ConvertReport(report.text, json.loads(report.json or "{}"))


def _export(module: Any, example_inputs: Any, path: str, input_names: Optional[Sequence[str]],
            output_names: Optional[Sequence[str]], dynamic_axes: Mapping[str, Mapping[int, str]], opset: int) -> None:
    import torch

    inputs = tuple(example_inputs) if isinstance(example_inputs, (list, tuple)) else (example_inputs,)
    names = list(input_names or inspect.signature(module.forward).parameters)[:len(inputs)]
    if len(names) < len(inputs):  # forward(self, *args)
        names = [f"input{i}" for i in range(len(inputs))]
    module = _to_be_traced(module, torch)
    with torch.random.fork_rng(devices=[]):
        with torch.no_grad():
            given = module(*inputs)
        given = list(given) if isinstance(given, (list, tuple)) else [given]
        results = list(output_names or (["output"] if len(given) == 1 else [f"output{i}" for i in range(len(given))]))
        axes: dict[str, dict[int, str]] = {}
        batch = None
        for name, tensor in zip([*names, *results], [*inputs, *given]):
            if not getattr(tensor, "ndim", 0):
                continue
            batch = tensor.shape[0] if batch is None else batch
            if name in names or tensor.shape[0] == batch:
                axes[name] = {0: "batch"}
        for name, named in dynamic_axes.items():
            axes.setdefault(name, {}).update(named)
        options: dict[str, Any] = {}
        if "dynamo" in inspect.signature(torch.onnx.export).parameters:
            options["dynamo"] = False  # the exporter by tracing, whose files keep the parameters' names
        torch.onnx.export(module, inputs, path, input_names=names, output_names=results, dynamic_axes=axes,
                          opset_version=opset, training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
                          **options)


def _to_be_traced(module: Any, torch: Any) -> Any:
    """A copy whose export keeps running statistics, and apart what merely has equal numbers.

    The exporter writes running statistics as the tracing call left them, which batch norms move in train mode; graft's
    own training uses the batch's statistics in any case. And where the outermost module is not in train mode, it writes
    parameters with equal numbers, such as fresh biases, as one.
    """
    module = copy.deepcopy(module)
    for part in module.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm):
            part.eval()
    mode, forward = module.training, module.forward

    def forward_in_its_mode(*inputs: Any) -> Any:
        module.training = mode
        try:
            return forward(*inputs)
        finally:
            module.training = True

    module.forward = forward_in_its_mode
    module.training = True
    return module

"""Contexts, models and sessions."""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping, Optional, Sequence, Union

import numpy as np

from . import _c
from ._data import DataSet, Evaluation, Field, GateResult, GateRow, data_by, data_of, evaluation_options
from ._errors import InvalidArgument
from ._generator import Embedder, Generator, Importance, ImportanceMatrix, Tokenizer
from ._inspection import Damage, KernelVerdict, Layer, NodeVerdict, Plan, Store, plan_of
from ._library import array_of, taken, text_of
from ._owned import Calls, Owned, copied, each, source_of
from ._tensors import InputFormat, Memory, TensorInfo, as_array, new_weights, tensor_of
from ._memory import MemoryFile
from ._trainer import Cipher, Forecast, Trainer, forecast_of, native_cipher, trainer_options

_Path = Union[str, "os.PathLike[str]"]
_INPUTS, _OUTPUTS, _PARAMETERS, _BUFFERS, _CONSTANTS = _c.TensorKind


class Context(Owned):
    """A device. Everything that is made from it keeps it alive.

    device: index or part of the name of a Vulkan device; None takes the best; "none" opens none, for forecasts.
    cache: a folder for compiled pipelines and for what was found out about the device's kernels, each of which is then
        tested before its first use there; None writes and tests nothing.
    matmul_precision: "highest", "high" or "medium", as in torch.set_float32_matmul_precision.
    priority: of the device's work among that of all programs, where the driver lets programs choose: "medium", "low" or
        "high".

    A context is used by one thread at a time: others wait. The interpreter's lock is released meanwhile. What graft has
    to tell goes to the logger "graft" at the end of the call in which it arose.
    """

    def __init__(self, device: Optional[str] = None, *, cache: Optional[_Path] = None, self_test: bool = True,
                 matmul_precision: str = "highest", vulkan_library: Optional[_Path] = None,
                 pipeline_cache: Optional[_Path] = None, priority: str = "medium") -> None:
        options = _c.ContextOptions(
            device=None if device is None else str(device), vulkan_library=vulkan_library, pipeline_cache=pipeline_cache,
            matmul_precision=matmul_precision, priority=priority, log_level="info")
        self._handle: Any = Calls(options)
        if cache is not None:
            self._call(_c.graft_context_open_cache, _c.CacheOptions(folder=cache, skip_self_test=not self_test))

    @property
    def device_name(self) -> str:
        """The device's name as its driver gives it; "" without a device."""
        return _c.graft_device_name(self._native).decode()

    def cancel(self) -> None:
        """From another thread: the call in progress, or else the next one that looks, raises Cancelled before its next
        submission to the device. Exactly one call ends for it. With the same samples again, a training step goes on to the
        same bits."""
        _c.graft_cancel(self._native)

    def uncancel(self) -> bool:
        """Withdraws a cancel() that no call has ended for; whether there was one."""
        return bool(_c.graft_uncancel(self._native))

    def set_pace(self, slice_ms: float = 0, duty: float = 1) -> None:
        """How much of the device calls take, from any thread and at any time; it changes no bit.

        slice_ms: how long it may work before others get a turn, 0.5 to 60000; 0 for about 100. duty: the share of time in
        which it works, 0.01 to 1.
        """
        native = self._native
        native.check(_c.graft_set_pace(native, slice_ms, duty))  # of which others are not waited for

    def set_progress(self, told: Optional[Callable[[str, int, int], Any]]) -> None:
        """Has told(stage, done, total) called in the course of calls; None: nobody is told.

        stage: "kernels" that are compiled, "samples" of a step or an evaluation, tokens of a "prompt" or an "answer",
        steps of a "plan". total: 0 where it is not known. False ends the call with Cancelled, as cancel() does; what told
        raises ends it as well and is raised by it. It must not call graft with this context.
        """
        calls = self._native
        context, words = calls._as_parameter_, list(_c.Stage)

        def tell(user: Any, stage: int, done: int, total: int) -> None:
            ends = True
            try:
                ends = told(words[stage].name if stage < len(words) else str(stage), done, total) is False  # type: ignore[misc]
            finally:
                if ends:
                    _c.graft_cancel(context)

        progress = _c.graft_progress() if told is None else _c.graft_progress(calls.guarded(tell, None))
        calls.call(_c.graft_set_progress, calls, progress, None)
        calls.progress = progress

    def load(self, path: _Path, *, check: str = "on_use") -> "Model":
        """A .graft file, whose weights are mapped: do not change it while the model lives.

        check: when the weights are compared with the file's checksums: "on_use" (before the first session or trainer),
        "at_once" or "never".
        """
        return Model(self, self._make(_c.graft_model_open, text_of(path), _c.ModelOptions(check=check), destroy=_c.graft_model_destroy))

    def load_bytes(self, file: bytes, *, check: str = "on_use") -> "Model":
        """The same of a .graft file's bytes, which the model has copies of."""
        return Model(self, self._make(_c.graft_model_open_source, source_of(file), _c.ModelOptions(check=check),
                                      destroy=_c.graft_model_destroy))

    def open_data(self, spec: str, *, model: Optional["Model"] = None, evaluation: bool = False, length: int = 0,
                  sequence_starts: bool = False, first: int = 0, count: int = 0, preference: str = "none",
                  pooling: str = "default") -> DataSet:
        """A data set by a SPEC, as "csv:rows.csv?label=kind"; docs/reference/data.md has them.

        model: that the data is for: "text:FILE" and "jsonl:FILE" become its tokens, labels its classes; the other options need
        it. evaluation: samples as they are, and labels of the model's classes alone. length: of samples of text, in tokens; 0:
        128. sequence_starts: all samples of text say where their texts begin. first, count: these samples alone; 0: to the end.
        preference: records are "pairs", "labelled" or "groups" (pooling), for the losses that learn from them.
        """
        options = _c.DataOptions(model=None if model is None else model._native, evaluation=evaluation, length=length,
                                 sequence_starts=sequence_starts, first=first, count=count, preference=preference, pooling=pooling)
        opened = (_c.graft_data_open, text_of(spec)) if model is None else (_c.graft_data_open_with, text_of(spec), options)
        return DataSet(self, self._make(*opened, destroy=_c.graft_data_destroy))

    def data_of(self, inputs: Mapping[str, Any], targets: Mapping[str, Any],
                weights: Optional[Mapping[str, Any]] = None) -> DataSet:
        """Samples in arrays of [samples, ...] by name, which stay as they are while the set is used."""
        return data_of(self, inputs, targets, weights)

    def data_by(self, fields: Sequence[Field], read: Callable[[int], Optional[Mapping[str, Any]]],
                samples: int = 0) -> DataSet:
        """Samples that read(index) gives as arrays by name, on graft's reading thread, which waits for the interpreter's lock;
        None: the data ends before. The same index gives the same sample. samples: 0 where nobody knows how many. What
        read raises is written to sys.unraisablehook, and the call that needs the sample fails."""
        return data_by(self, fields, read, samples)

    def open_store(self, folder: _Path, *, writable: bool = False, cipher: Optional[Cipher] = None) -> Store:
        """The folder that a run is kept in; writable: to tag, prune and branch, and no trainer may have it open."""
        options = _c.StoreOptions(writable=writable, cipher=native_cipher(cipher, self._native))
        return Store(self, self._make(_c.graft_store_open, text_of(folder), options, destroy=_c.graft_store_destroy))

    def open_memory(self, path: _Path, *, fields: Sequence[Field] = (), like: Optional[DataSet] = None, bytes: int = 64 << 20,
                    records: int = 0, policy: str = "reservoir", held_out: float = 0.1, seed: int = 0,
                    cipher: Optional[Cipher] = None, read_only: bool = False) -> MemoryFile:
        """A memory of examples, made if it is missing and fields are given, or those of the set `like`.

        Of a new file: bytes, records: its limits (0: none). policy: which record is evicted of the class that has most when it is
        full: by chance ("reservoir"), the smallest "loss" or "age". held_out: share that is never trained on. seed: of these
        draws. cipher: of everything in the file. read_only: another process may write.
        """
        known = list(fields or (like.fields if like is not None else ()))
        structs = (_c.Field * len(known))(*(field._struct() for field in known))
        options = _c.MemoryOptions(fields=structs if fields else None, like=None if like is None or fields else like._native, bytes=bytes,
                                   records=records, policy=policy, held_out_share=held_out, seed=seed, read_only=read_only,
                                   cipher=native_cipher(cipher, self._native))
        return MemoryFile(self, self._make(_c.graft_memory_open, text_of(path), options, destroy=_c.graft_memory_destroy), known)

    def self_test(self) -> list[KernelVerdict]:
        """Runs every kernel that this device may choose against a known answer; a minute on software Vulkan."""
        return self._verdicts(_c.graft_context_self_test)

    def known_kernels(self) -> list[KernelVerdict]:
        """What a context with a cache knows of them so far."""
        return self._verdicts(_c.graft_context_known_kernels)

    def _verdicts(self, function: Any) -> list[KernelVerdict]:
        found: list[KernelVerdict] = []
        self._call(function, _c.graft_kernel_report(lambda user, kernel, verdict, why: found.append(
            KernelVerdict(kernel.decode(), _c.KernelVerdict(verdict).name, why.decode()))), None)
        return found

    def __repr__(self) -> str:
        if self.closed:
            return "graft.Context(closed)"
        return f"graft.Context({self.device_name!r})"


_default_context: Optional[Context] = None


def load(path: _Path, *, context: Optional[Context] = None, check: str = "on_use") -> "Model":
    """As Context.load; without a context, of one that is made on first use for the best device."""
    global _default_context
    if context is None:
        if _default_context is None or _default_context.closed:
            _default_context = Context()
        context = _default_context
    return context.load(path, check=check)


class Model(Owned):
    """A graph with its weights; made by load()."""

    def __init__(self, context: Context, native: Any) -> None:
        self.context = context
        self._made_from(context, native)
        self._users: "weakref.WeakSet[Any]" = weakref.WeakSet()

    @property
    def inputs(self) -> list[TensorInfo]:
        """The model's inputs in order, with the names, shapes and order of axes of the source model."""
        return self._tensors(_INPUTS)

    @property
    def outputs(self) -> list[TensorInfo]:
        """The model's outputs in order."""
        return self._tensors(_OUTPUTS)

    def _tensors(self, kind: int) -> list[TensorInfo]:
        model = self._native

        def axis_of(index: int, axis: int) -> str:
            name = ctypes.c_char_p()
            model.calls.check(_c.graft_model_dimension(model, kind, index, axis, ctypes.byref(name)))
            return (name.value or b"").decode()

        infos = enumerate(self._each(_c.TensorInfo, _c.graft_model_tensor, kind, take=lambda info: info))
        with model.calls:
            return [tensor_of(info, [axis_of(i, axis) if size < 0 else size for axis, size in enumerate(info.dims[:info.rank])])
                    for i, info in infos]

    def named_parameters(self) -> Iterator[tuple[str, TensorInfo]]:
        """(name, what it is) of each trainable parameter, in the file's order."""
        for info in self._tensors(_PARAMETERS):
            yield info.name, info

    def state_dict(self, *, frozen: bool = False) -> dict[str, np.ndarray]:
        """Parameters and running statistics by name, as copies; frozen: also the weights that are not trained.

        A module of PyTorch that the model was converted from takes them:
        `module.load_state_dict({name: torch.from_numpy(array) for name, array in model.state_dict().items()})`.
        """
        return {info.name: self._read(_c.graft_model_read, info.name) for info in self._weights(frozen)}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """New contents for parameters, running statistics and frozen weights, by name, from arrays of their shapes.

        strict: each parameter and each running statistic must be there, and nothing that the model does not have;
        PyTorch's num_batches_tracked aside. Sessions, generators and trainers of the model must be gone.
        """
        self._unused("load_state_dict")
        for name, array in new_weights(self._weights(True), self._weights(False), state_dict, strict).items():
            self._write(_c.graft_model_write, name, array)

    def _weights(self, frozen: bool) -> list[TensorInfo]:
        kinds = (_PARAMETERS, _BUFFERS, _CONSTANTS) if frozen else (_PARAMETERS, _BUFFERS)
        return [info for kind in kinds for info in self._tensors(kind)]

    @property
    def metadata(self) -> dict[str, str]:
        """Texts by key, in the model's file, as a copy."""
        model, key, value = self._native, ctypes.c_char_p(), ctypes.c_char_p()
        found = {}
        with model.calls as calls:
            for index in range(_c.graft_model_metadata_count(model)):
                calls.check(_c.graft_model_metadata_at(model, index, ctypes.byref(key), ctypes.byref(value)))
                found[key.value.decode()] = value.value.decode("utf-8", "replace")  # type: ignore[union-attr]
        return found

    def set_metadata(self, key: str, value: Optional[str]) -> None:
        """None takes the key away."""
        self._call(_c.graft_model_set_metadata, text_of(key), text_of(value))

    @property
    def signatures(self) -> dict[str, tuple[list[str], list[str]]]:
        """Entry points beside all inputs and outputs together: names of what each needs and gives."""
        def names(index: int, kind: int) -> list[str]:
            return self._each(_c.TensorInfo, _c.graft_model_signature_tensor, index, kind, take=lambda info: info.name.decode())

        found = self._each(_c.Signature, _c.graft_model_signature, take=lambda signature: signature.name.decode())
        return {name: (names(i, _INPUTS), names(i, _OUTPUTS)) for i, name in enumerate(found)}

    @property
    def classes(self) -> list[str]:
        """What the outputs stand for; empty where the model does not say."""
        model = self._native
        with model.calls:
            names = iter(lambda at=itertools.count(): _c.graft_model_class(model, next(at)), None)
            return [name.decode() for name in names]

    def keep_classes(self, data: DataSet) -> None:
        """Keeps the names of the set's classes, which the outputs stand for from now on."""
        self._call(_c.graft_model_keep_classes, data._native)

    # ---- What is known before anything runs ----------------------------------------------------------------------

    def layers(self, bindings: Optional[Mapping[str, int]] = None) -> list[Layer]:
        """In the order of the graph; dimensions without a binding have the model's own size, else 1."""
        return self._list(_c.Layer, _c.graft_model_layers, *_sizes(bindings), take=lambda layer: taken(Layer, layer))

    def plan(self, bindings: Optional[Mapping[str, int]] = None, *, budget: int = 0, precision: str = "float32",
             caps: str = "") -> Plan:
        """What a session would do, on the context's device, or on one of another kind (caps, as in "adreno-7xx")."""
        session = _c.SessionOptions(bindings=bindings, budget=budget, precision=precision)
        return plan_of(self, _c.PlanOptions(session=session, caps=caps))

    def plan_training(self, *, caps: str = "", curve: bool = False, **options: Any) -> Plan:
        """What a trainer with these options would do; curve: also memory against work."""
        return plan_of(self, _c.PlanOptions(training=trainer_options(**options), caps=caps, curve=curve))

    def find_damage(self) -> list[Damage]:
        """Reads all weights of the file; what is not as its checksums say."""
        return self._list(_c.Damage, _c.graft_model_find_damage, take=lambda damage: taken(Damage, damage))

    def verify(self, bindings: Optional[Mapping[str, int]] = None, *, seed: int = 1, tolerance: float = 1e-4) -> list[NodeVerdict]:
        """Runs the model in double precision on random inputs, and each node on the device, forward and backward."""
        model, found = self._native, []

        def note(user: Any, verdict: Any) -> int:
            found.append(taken(NodeVerdict, verdict.contents))
            return 0

        options = _c.VerifyOptions(bindings=bindings, seed=seed, tolerance=tolerance)
        verify = _c.graft_model_verify
        with model.calls as calls:
            status = verify(model, options, verify.argtypes[2](calls.guarded(note, 1)), None, None, None)
            calls.check(0 if status == _c.Status.device_error else status)  # which says that some differ
        return found

    def evaluation(self, data: DataSet, *, metrics: Sequence[str] = (), confusion: bool = False, outcomes: bool = False,
                   **training: Any) -> Evaluation:
        """What the weights give on all samples of a set that has no loader; training: the loss, the batch, the precision.

        metrics: beside the loss; metric_names() has them. outcomes: for Evaluation.compare().
        """
        return Evaluation(self.context, self._make(
            _c.graft_evaluate_model, data._native, evaluation_options(metrics, confusion, outcomes, trainer_options(**training)),
            destroy=_c.graft_evaluation_destroy))

    def gate(self, data: DataSet, conditions: str, *, old: Optional["Model"] = None, path: Optional[_Path] = None,
             margin: float = 0, **training: Any) -> GateResult:
        """Whether this model may replace an old one: conditions, as in "accuracy>=0.9,loss<=0.5", hold, and each of these
        metrics is at most `margin` worse than the old model's. With a path the model is then saved there, or where it did
        not pass beside it, with ".rejected" before the ending."""
        options = _c.GateOptions(conditions=conditions, margin=margin, training=trainer_options(**training))
        model, result = self._native, _c.GateResult()
        with model.calls as calls:
            calls.check(_c.graft_gate(model, old and old._native, data._native, options, text_of(path), result))
            rows = each(calls, _c.GateRow, _c.graft_gate_condition, model, take=lambda row: taken(GateRow, row))
            return taken(GateResult, result, rows=rows)

    def save(self, path: _Path) -> None:
        """Writes a .graft file atomically: where that fails, the file is as it was."""
        self._call(_c.graft_model_save, text_of(path))

    # ---- Running ------------------------------------------------------------------------------------------------

    def session(self, bindings: Optional[Mapping[str, int]] = None, *, of: Optional[str] = None, wrt: Sequence[str] = (),
                budget: int = 0, precision: str = "float32", allow_non_finite: bool = False, fetch: Sequence[str] = (),
                train_mode: bool = False, largest: Optional[Mapping[str, int]] = None,
                formats: Optional[Mapping[str, InputFormat]] = None, recover_device: bool = False,
                signature: str = "") -> "Session":
        """See Session."""
        return Session(self, bindings, of=of, wrt=wrt, budget=budget, precision=precision,
                       allow_non_finite=allow_non_finite, fetch=fetch, train_mode=train_mode, largest=largest,
                       formats=formats, recover_device=recover_device, signature=signature)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """All outputs for these inputs, once; a session plans once for many runs."""
        return self.session().run(inputs)

    def gradients(self, inputs: Mapping[str, Any], *, of: str, wrt: Sequence[str],
                  bindings: Optional[Mapping[str, int]] = None, budget: int = 0, micro_batch: int = 0,
                  per_sample: bool = False, train_mode: bool = False) -> dict[str, np.ndarray]:
        """Gradients of the value `of` with respect to each of `wrt` (parameters, inputs or any values), by name.

        inputs: any number of samples, and "cotangent" (the shape of `of`) where that has more than one element.
        budget: largest device memory in bytes, 0 for no limit; samples go through in micro-batches that keep to it.
        per_sample: parameters' gradients for each sample, along a new first axis. train_mode: with dropout at work.
        """
        arrays = _arrays(self.inputs, inputs, extra=("cotangent",))
        options = _c.GradientOptions(of=of, wrt=wrt, budget=budget, micro_batch=micro_batch, per_sample=per_sample,
                                     train_mode=train_mode, bindings=_bound(self.inputs, arrays, bindings or {}))
        inputs = [_c.Data(name=name, data=array.ctypes.data, bytes=array.nbytes) for name, array in arrays.items()]
        made = self._make(_c.graft_gradients_compute, options, (_c.Data * len(inputs))(*inputs), len(inputs),
                          destroy=_c.graft_gradients_destroy)
        with made.calls as calls:
            return {name: copied(calls, _c.graft_gradients_get, made, name) for name in ([wrt] if isinstance(wrt, str) else wrt)}

    def generator(self, *, context: int = 0, prefill: int = 64, budget: int = 0, precision: str = "float32",
                  recover_device: bool = False, prompt_lookup: int = 0, cache: str = "float32",
                  sequences: int = 0) -> Generator:
        """A Generator, for language models.

        context: tokens of prompt and answer together; 0: the model's own, at most 2048. prefill: tokens of a prompt
        taken at a time. budget: largest device memory in bytes, 0 for no limit. recover_device: where the device
        is lost it is opened anew, and a text goes on to the same bits. prompt_lookup: tokens that are guessed from what
        the text says before, and verified in one run: the same text, sooner where it repeats itself; 0: none. cache: how
        keys and values of earlier tokens are kept; "float16" and "bfloat16" take half of the memory, "q8_0"
        about a quarter. sequences: texts that Generator.generate_many() writes at once, each with caches of its own; 0: one
        after the other.
        """
        made = Generator(self, context=context, prefill=prefill, budget=budget, precision=precision,
                         recover_device=recover_device, prompt_lookup=prompt_lookup, cache=cache, sequences=sequences)
        self._users.add(made)
        return made

    def embedder(self, *, pooling: str = "default", normalize: bool = False, cut: bool = False, length: int = 0, batch: int = 8,
                 of: str = "", budget: int = 0, precision: str = "float32", recover_device: bool = False) -> Embedder:
        """An Embedder, for language models and encoders of texts.

        pooling: "mean" of the vectors of all tokens, "last", "cls", the first, or "default", as the model's file says
        (else the mean). normalize: vectors of length 1. length: most tokens of a text; 0: the model's own context, at most 512;
        longer ones are refused, or with cut cut at their end. batch: texts on the device at once. of: the value that is pooled; "": the last hidden state. budget: largest
        device memory in bytes, 0 for no limit.
        """
        made = Embedder(self, pooling=pooling, normalize=normalize, cut=cut, length=length, batch=batch, of=of,
                        budget=budget, precision=precision, recover_device=recover_device)
        self._users.add(made)
        return made

    def importance(self, texts: Union[str, Sequence[Union[str, Sequence[int]]]], *, context: int = 0, chunks: int = 0, head: bool = False,
                   parse_special: bool = False, budget: int = 0, recover_device: bool = False) -> Importance:
        """How much the columns of a causal language model's matrices matter to texts, for write_imatrix().

        Each text is cut into chunks of `context` tokens (0: the model's own, at most 512); one shorter than a chunk is an
        error. chunks: most of them; 0: no limit. head: of the head's matrix too. parse_special: special tokens that are
        spelled out become these. budget: largest device memory in bytes, 0 for no limit.
        """
        options = _c.ImportanceOptions(context=context, chunks=chunks, head=head, parse_special=parse_special, budget=budget,
                                       recover_device=recover_device)
        made = self._make(_c.graft_importance_create, options, destroy=_c.graft_importance_destroy)
        waiting = ctypes.c_uint64()
        for text in [texts] if isinstance(texts, str) else texts:
            given = (_c.graft_importance_add, text.encode("utf-8", "surrogateescape")) if isinstance(text, str) else (
                _c.graft_importance_add_tokens, array_of(ctypes.c_int32, text))
            made.calls.call(given[0], made, given[1], len(given[1]), ctypes.byref(waiting))
            while waiting.value:
                made.calls.call(_c.graft_importance_step, made, ctypes.byref(waiting))
        info = _c.ImportanceInfo()
        with made.calls as calls:
            calls.check(_c.graft_importance_describe(made, info))
            matrices = each(calls, _c.ImportanceMatrix, _c.graft_importance_at, made, take=lambda one: ImportanceMatrix(
                one.name.decode(), np.array(one.sums[:one.columns]), one.tokens))
        return Importance(matrices, info.context, info.chunks, info.dropped)

    def tokenizer(self) -> Tokenizer:
        """The tokenizer of a language model; NotFound where the model has none."""
        made = Tokenizer(self)
        self._users.add(made)
        return made

    # ---- Training -----------------------------------------------------------------------------------------------

    def trainer(self, **options: Any) -> Trainer:
        """A Trainer with these options."""
        made = Trainer(self, **options)
        self._users.add(made)
        return made

    def forecast(self, **options: Any) -> Forecast:
        """What trainer(**options) would take, in milliseconds and without allocating anything on a device.

        OutOfMemory where nothing fits the budget; its sentence names the smallest that works.
        """
        return self._ask(_c.Forecast, _c.graft_forecast_training, trainer_options(**options), take=forecast_of)

    # ---- Adapters -----------------------------------------------------------------------------------------------

    def add_adapters(self, *, r: int = 8, alpha: float = 16, dropout: float = 0, targets: Iterable[str] = (),
                     dora: bool = False, rslora: bool = False, init: str = "default", seed: int = 0) -> None:
        """Gives the model fresh low-rank adapters in place of any that it has; all else is frozen from then on.

        targets: names of layers, or parts of them, such as "q_proj"; none: the default ones. dora: the lengths of rows
        are trained, too. rslora: the scale is alpha over the root of r. init: "pissa" lets them begin as the strongest
        directions of the weights. Sessions, generators and
        trainers of the model must be gone.
        """
        self._unused("add_adapters")
        flag = {True: "yes", False: "no"}
        options = f"r={r},alpha={alpha},dropout={dropout},dora={flag[bool(dora)]},rslora={flag[bool(rslora)]},init={init}"
        names = [targets] if isinstance(targets, str) else list(targets)
        if names:
            options += ",targets=" + "|".join(names)
        self._call(_c.graft_model_add_adapters, options.encode(), seed)

    def add_tokens(self, tokens: Iterable[Union[str, Dict[str, Any]]]) -> None:
        """Adds tokens to the vocabulary, after those that it has.

        Each is a text, or {"content": text, "special": True} for one that is found only if special tokens are asked for.
        Their rows of embedding and head begin as the mean of the rows of the model's own tokens, and are trained.
        Adapters and tokens of earlier calls, and all other rows, keep their bits.
        """
        self._unused("add_tokens")
        self._call(_c.graft_model_add_tokens, json.dumps([tokens] if isinstance(tokens, str) else list(tokens)).encode())

    def resize_head(self, num_classes: int, *, output: Optional[str] = None, replace: bool = False, seed: int = 0,
                    class_names: Sequence[str] = ()) -> None:
        """Another number of classes for the last layer; nothing may use the model.

        Old rows keep their bits, and new rows begin as in PyTorch's Linear and Conv2d, by the seed. replace: all rows begin
        anew, and there may be fewer. output: of the classes; None: the model's only output. class_names: of the new classes
        (replace: of all), for a model that knows its classes by names. A run of the model before can be continued:
        Trainer.open_checkpoint(folder, resume=True).
        """
        self._unused("resize_head")
        self._call(_c.graft_model_resize_head, _c.HeadOptions(output=output, classes=num_classes, replace=replace, seed=seed,
                                                               class_names=class_names))

    def load_adapters(self, path: Union[None, _Path, bytes, Mapping[str, float]]) -> None:
        """Those of a file, or of its bytes, in place of any that the model has; None: none. Of {path: weight, ...} those of several
        files at once, each product times its weight. As for add_adapters, nothing may use the model."""
        self._unused("load_adapters")
        if isinstance(path, bytes):
            self._call(_c.graft_model_load_adapters_source, source_of(path))
        elif isinstance(path, Mapping):
            files, count = [text_of(file) for file in path], len(path)
            self._call(_c.graft_model_load_adapters_together, (ctypes.c_char_p * count)(*files),
                       (ctypes.c_double * count)(*map(float, path.values())), count)
        else:
            self._call(_c.graft_model_load_adapters, text_of(path))

    def merge_adapters(self, quantize: str = "") -> None:
        """Adds their product to the weights: from then on there are none, and save() writes an ordinary model.

        quantize: merged matrices become blocks of this format ("q8_0", ...), frozen.
        """
        self._call(_c.graft_model_merge_adapters, text_of(quantize) or None)

    def save_adapters(self, path: _Path) -> None:
        """Writes the adapters alone, atomically."""
        self._call(_c.graft_model_save_adapters, text_of(path))

    def _unused(self, what: str) -> None:
        users = [type(user).__name__ for user in self._users if not user.closed]
        if users:
            raise InvalidArgument(f"{what} changes the model, and a {users[0]} of it is still in use: close it first.")

    def __repr__(self) -> str:
        if self.closed:
            return "graft.Model(closed)"
        of = ", ".join(f"{info.name} {list(info.shape)}" for info in self.inputs)
        return f"graft.Model({of} -> {', '.join(info.name for info in self.outputs)})"


class Session(Owned):
    """A model planned and recorded for one set of sizes.

    bindings: sizes of the named dimensions, as in {"batch": 32}. Those that are left out are taken from the arrays of
        the first run; a run with other sizes plans anew.
    of, wrt: runs also give the gradient of the value `of` with respect to each of `wrt` (parameters, inputs or any
        values), as "grad:NAME". Where `of` has more than one element, "cotangent" is an input of its shape.
    budget: largest device memory in bytes, 0 for no limit; OutOfMemory where the plan needs more.
    precision: how the device keeps what it computes on the way: "float32", "float16" or "bfloat16".
    allow_non_finite: inputs may hold NaN and infinity, which are an error otherwise.
    fetch: values on the way, by the source model's names, that runs give as well.
    train_mode: with `of`: batch norm by the batch's statistics, dropout at work; without the model's outputs.
    largest: the largest sizes of all named dimensions, in place of `bindings`. Memory is taken for these, once; a run
        of smaller arrays plans at the first use of its sizes and not again.
    formats: inputs by name that are given as bytes or halves; see InputFormat.
    signature: one of Model.signatures: its outputs and no others, and only the inputs that they need.
    recover_device: a run on which the device is lost opens it anew and is done there, to the same bits.
    """

    def __init__(self, model: Model, bindings: Optional[Mapping[str, int]] = None, *, of: Optional[str] = None,
                 wrt: Sequence[str] = (), budget: int = 0, precision: str = "float32", allow_non_finite: bool = False,
                 fetch: Sequence[str] = (), train_mode: bool = False,
                 largest: Optional[Mapping[str, int]] = None,
                 formats: Optional[Mapping[str, InputFormat]] = None, recover_device: bool = False,
                 signature: str = "") -> None:
        if bindings and largest:
            raise ValueError("A session has sizes that stay (bindings) or that may change (largest), not both.")
        self.model = model
        self._fixed = dict(bindings or {})
        self._largest = dict(largest or {})
        self._bindings: Optional[dict[str, int]] = None
        self._wrt = [wrt] if isinstance(wrt, str) else list(wrt)
        fetch = [fetch] if isinstance(fetch, str) else list(fetch)
        self._options = dict(of=of, wrt=self._wrt, budget=budget, precision=precision, allow_non_finite=allow_non_finite, fetch=fetch,
                             train_mode=train_mode, resizable=bool(largest), inputs=formats, recover_device=recover_device,
                             signature=signature)
        _c.SessionOptions(**self._options)  # wrong ones are told now
        entry = model.signatures[signature] if signature else None
        self._inputs = [formats[info.name].given(info) if info.name in (formats or {}) else info
                        for info in model.inputs if entry is None or info.name in entry[0]]
        self._outputs = [] if train_mode else [info.name for info in model.outputs] if entry is None else list(entry[1])
        self._outputs += [name for name in fetch if name not in self._outputs]
        self._outputs += [f"grad:{name}" for name in self._wrt]
        names = {axis for info in self._inputs for axis in info.shape if _is_name(axis)}
        for name in (*self._fixed, *self._largest):
            if name not in names:
                raise ValueError(f"There is no dimension {name!r}; there are {', '.join(map(str, names)) or 'none'}.")
        if self._largest and names > self._largest.keys():
            raise ValueError(f"largest lacks {', '.join(sorted(names - self._largest.keys()))}.")
        model._users.add(self)
        self._made_from(model, None)
        if names <= self._fixed.keys() | self._largest.keys():
            self._plan(self._fixed or self._largest)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Outputs by name, as new arrays, and "grad:NAME" for each of `wrt`.

        inputs: arrays by name, of the shapes of Model.inputs. Those that are left out keep what the last run had.
        """
        arrays = _arrays(self._inputs, inputs, extra=("cotangent",) if self._wrt else ())
        kept = self._bindings if self._bindings is not None else self._fixed
        missing = [info.name for info in self._inputs if info.name not in arrays]
        bindings = _bound(self._inputs, arrays, kept if missing else self._fixed)
        if self._native is None or bindings != self._bindings:
            if missing:
                raise InvalidArgument(f"The first run needs all inputs, and {missing[0]!r} is missing.")
            self._plan(bindings)
        session = self._native
        with session.calls as calls:
            for name, array in arrays.items():
                calls.check(_c.graft_session_set_input(session, name.encode(), array.ctypes.data, array.nbytes))
            calls.check(_c.graft_session_run(session))
            return {name: copied(calls, _c.graft_session_output, session, name) for name in self._outputs}

    def memory(self) -> Memory:
        """Bytes by class of memory; InvalidArgument as long as nothing is planned."""
        if self._native is None:
            raise InvalidArgument("The session has no plan before its first run, unless all dimensions are bound.")
        return self._ask(_c.Memory, _c.graft_session_memory, take=lambda memory: taken(Memory, memory))

    def swap_adapters(self, path: Optional[_Path]) -> None:
        """The adapters of a file in place of those that the model had, without planning anew; None: as without any."""
        if self._native is None:
            raise InvalidArgument("The session has no plan before its first run, unless all dimensions are bound.")
        if isinstance(path, bytes):
            self._call(_c.graft_session_swap_adapters_source, source_of(path))
        else:
            self._call(_c.graft_session_swap_adapters, text_of(path))

    def pause(self) -> None:
        """Gives all device memory back until the next call; inputs wait in host memory."""
        if self._native is not None:
            self._call(_c.graft_session_pause)

    def resume(self) -> None:
        """Builds everything again; OutOfMemory where the device has not the memory now: ask again."""
        if self._native is not None:
            self._call(_c.graft_session_resume)

    def _plan(self, bindings: dict[str, int]) -> None:
        if self._largest and self._native is not None:
            self._call(_c.graft_session_resize, *_sizes(bindings))
            self._bindings = dict(bindings)
            return
        self._handle = None  # its memory goes before the next plan takes some
        self._handle = self.model._make(_c.graft_session_create, _c.SessionOptions(bindings=bindings, **self._options),
                                        destroy=_c.graft_session_destroy)
        self._bindings = dict(bindings)


def _sizes(bindings: Optional[Mapping[str, int]]) -> tuple[Any, int]:
    """As functions take them: an array, and how many there are."""
    return array_of(_c.Binding, bindings or {}), len(bindings or {})


def _is_name(axis: Union[int, str]) -> bool:
    return isinstance(axis, str) and axis.isidentifier()


def _arrays(infos: list[TensorInfo], given: Mapping[str, Any], extra: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays that were given, of the inputs' dtypes."""
    if not hasattr(given, "items"):
        raise TypeError("Inputs are a mapping from names to arrays.")
    dtypes = {info.name: info.dtype for info in infos}
    dtypes.update((name, "float32") for name in extra)
    for name in given:
        if name not in dtypes:
            raise ValueError(f"There is no input {name!r}; there are {', '.join(dtypes)}.")
    return {name: as_array(value, dtypes[name], f"The input {name!r}") for name, value in given.items()}


def _bound(infos: list[TensorInfo], arrays: Mapping[str, np.ndarray], fixed: Mapping[str, int]) -> dict[str, int]:
    """The sizes of all named dimensions; ValueError where an array does not have the shape of its input."""
    bindings = dict(fixed)
    for info in infos:
        array = arrays.get(info.name)
        if array is None:
            continue
        fits = array.ndim == len(info.shape)
        for size, axis in zip(array.shape, info.shape):
            if _is_name(axis):
                fits = fits and bindings.setdefault(str(axis), size) == size
            elif isinstance(axis, int):
                fits = fits and axis == size
        if not fits:
            known = [bindings.get(axis, axis) if isinstance(axis, str) else axis for axis in info.shape]
            raise ValueError(f"The input {info.name!r} is {list(info.shape)}, here {known}, and the array is "
                             f"{list(array.shape)}.")
    return bindings

"""Data sets, and what models make of them."""

from __future__ import annotations

import ctypes
import itertools
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from . import _c
from ._library import Unraised, array_of, taken
from ._owned import Owned, each
from ._tensors import DTYPES, as_array

if TYPE_CHECKING:
    from ._model import Context, Model

_ROLES = ("input", "target", "weight")


class Field(NamedTuple):
    """One tensor of a sample."""

    name: str
    dtype: str
    shape: tuple[int, ...]  #: of one sample: without the batch
    role: str = "input"  #: "input" of the model, "target" of the loss, or "weight", how much a sample counts for; in this order
    classes: tuple[str, ...] = ()  #: what the numbers of a label stand for, where somebody says

    def _struct(self) -> _c.Field:
        return _c.Field(name=self.name, dtype=_c.Dtype[self.dtype], rank=len(self.shape), is_label=_ROLES.index(self.role),
                        dims=(ctypes.c_int64 * 8)(*self.shape))


class Batch(NamedTuple):
    """Some samples in a row."""

    fields: dict[str, np.ndarray]
    epoch: int  #: from 0
    last_of_epoch: bool


class DataSet(Owned):
    """Samples by number; made by Context.open_data() and its neighbours."""

    def __init__(self, context: "Context", native: Any) -> None:
        self.context = context
        self._made_from(context, native)

    @property
    def samples(self) -> Optional[int]:
        """How many there are; None where nobody knows."""
        native = self._native
        with native.calls:
            return _c.graft_data_samples(native) or None

    @property
    def fields(self) -> list[Field]:
        """What one sample consists of, in order."""
        def field(native: Any, index: int, field: _c.Field) -> Field:
            named = iter(lambda at=itertools.count(): _c.graft_data_class(native, index, next(at)), None)
            return Field(field.name.decode(), DTYPES[field.dtype], tuple(field.dims[:field.rank]), _ROLES[field.is_label],
                         tuple(name.decode("utf-8", "replace") for name in named))

        native = self._native
        found = self._each(_c.Field, _c.graft_data_field, take=lambda field: field)
        with native.calls:
            return [field(native, index, one) for index, one in enumerate(found)]

    def add_reference(self, model: "Model", batch: int = 8) -> None:
        """What `model`, without adapters, makes of the texts of preferences becomes part of the samples, which the losses "dpo",
        "ipo" and "kto" learn the difference to. Computed once; before the set has a loader."""
        self._call(_c.graft_data_add_reference, model._native, batch)

    def select(self, rows: Sequence[int]) -> "DataSet":
        """The samples of these numbers, in this order, as a set of its own: of a client, or a fold of a cross-validation. Of
        all that read one set, one has a loader at a time."""
        return DataSet(self.context, self._make(_c.graft_data_select, array_of(ctypes.c_uint64, rows), len(rows),
                                                destroy=_c.graft_data_destroy, uses=self._native))

    def split(self, way: str, parts: int, seed: int = 0) -> list[np.ndarray]:
        """The numbers of each part's samples, for select(): all are shared out, the same by the same seed.

        way: "iid", at random in equal parts; "dirichlet=ALPHA", of each label in shares drawn from a Dirichlet distribution
        (Hsu et al. 2019); "shards=N", sorted by label, N pieces to each part (McMahan et al. 2017). A part may have none.
        """
        rows, ends = np.empty(self.samples or 0, "uint64"), (ctypes.c_uint64 * parts)()
        self._call(_c.graft_data_split, way.encode(), parts, seed, rows.ctypes.data_as(ctypes.POINTER(ctypes.c_uint64)), ends)
        return [rows[begin:end] for begin, end in zip([0, *ends], ends)]

    def loader(self, *, batch: int = 32, seed: int = 0, shuffle: bool = True, drop_last: bool = False, epochs: int = 1,
               shuffle_buffer: int = 1024, memory_limit: int = 0, read_threads: int = 0, keyed: bool = False) -> "Loader":
        """Batches, read ahead; a set has one loader at a time.

        seed: of the order. epochs: 0 for no end. shuffle_buffer: samples, where nobody knows how many there are.
        memory_limit: bytes for batches and buffers, 0 for none. read_threads: where each sample is a file; 0: as many as
        cores, 8 at most. keyed: the order follows from a hash of each sample, so that one that is left out does not change that
        of the others; what MemoryFile.mix() gives needs it.
        """
        options = _c.LoaderOptions(batch=batch, seed=seed, in_order=not shuffle, drop_last=drop_last, epochs=epochs,
                                   shuffle_buffer=shuffle_buffer, memory_limit=memory_limit, read_threads=read_threads, keyed=keyed)
        return Loader(self, self._make(_c.graft_loader_create, options, destroy=_c.graft_loader_destroy, uses=self._native))


class Loader(Owned):
    """Batches of a data set, as an iterator and for Trainer.train_next(); made by DataSet.loader()."""

    def __init__(self, data: DataSet, native: Any) -> None:
        self.data = data
        self._made_from(data, native)
        self._fields = data.fields

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        native, batch = self._native, _c.Batch()
        with native.calls as calls:
            calls.check(_c.graft_loader_next(native, batch))
            if batch.samples == 0:
                raise StopIteration
            return Batch({field.name: _copy(pointer, _plain(field.dtype), (batch.samples, *field.shape))
                          for field, pointer in zip(self._fields, batch.fields)}, batch.epoch, bool(batch.last_of_epoch))


def _copy(pointer: int, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    array = np.empty(shape, dtype)
    ctypes.memmove(array.ctypes.data, pointer, array.nbytes)
    return array


def _plain(dtype: str) -> str:
    return {"bool": "int32", "bfloat16": "uint16"}.get(dtype, dtype)


def data_of(context: "Context", inputs: Mapping[str, Any], targets: Mapping[str, Any],
            weights: Optional[Mapping[str, Any]]) -> DataSet:
    """See Context.data_of()."""
    fields, arrays = [], []
    for role, given in (("input", inputs), ("target", targets), ("weight", weights or {})):
        for name, value in given.items():
            array = np.asarray(value)
            dtype = "int32" if array.dtype.kind in "iu" and array.dtype.itemsize > 1 else str(array.dtype)
            array = as_array(value, dtype if dtype in ("int32", "uint8", "int8", "float16") else "float32", f"{name!r}")
            fields.append(Field(name, str(array.dtype), array.shape[1:], role))
            arrays.append(array)
    samples = {array.shape[0] for array in arrays}
    if len(samples) != 1:
        raise ValueError("All fields of a data set have one row for each sample.")
    blocks = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    return DataSet(context, context._make(_c.graft_data_from_memory, *_structs(fields), blocks, samples.pop(),
                                          destroy=_c.graft_data_destroy, uses=arrays))


def _structs(fields: Sequence[Field]) -> tuple[Any, int]:
    return (_c.Field * len(fields))(*(field._struct() for field in fields)), len(fields)


def data_by(context: "Context", fields: Sequence[Field], read: Callable[[int], Optional[Mapping[str, Any]]],
            samples: int) -> DataSet:
    """See Context.data_by()."""
    wanted = list(fields)

    def sample(index: int, out: Any) -> int:
        found = read(index)
        if found is None:
            return 0
        for place, field in enumerate(wanted):
            array = as_array(found[field.name], _plain(field.dtype), f"{field.name!r} of sample {index}")
            if array.shape != tuple(field.shape):
                raise ValueError(f"{field.name!r} of sample {index} is {list(array.shape)}, not {list(field.shape)}.")
            ctypes.memmove(out[place], array.ctypes.data, array.nbytes)
        return 1

    def told(user: Any, index: int, out: Any) -> int:
        try:
            return sample(index, out)
        except BaseException as raised:
            Unraised(raised)
            return -1

    called = _c.graft_read_sample(told)
    return DataSet(context, context._make(_c.graft_data_from_callback, *_structs(wanted), samples, called, None,
                                          destroy=_c.graft_data_destroy, uses=called))


class ClassChange(NamedTuple):
    """One class in a comparison."""

    label: int
    rows: int
    old_right: int
    new_right: int


class Comparison(NamedTuple):
    """How two models differ on the same data; a row is one label or number of a sample."""

    samples: int
    rows: int
    both_right: int  #: of a regression, samples that one is closer to count as right for it alone
    only_old: int
    only_new: int
    neither: int
    p_value: float  #: McNemar's test, of a regression a sign test
    exact: bool  #: of the binomial distribution, not of chi-squared
    changed: list[int]  #: samples of which another class is predicted
    lost: list[int]  #: samples with a row that only the old one has right
    gained: list[int]
    classes: list[ClassChange]


class Evaluation(Owned):
    """What a model gave on a data set; made by Model.evaluation() and Trainer.evaluation()."""

    def __init__(self, context: "Context", native: Any) -> None:
        self._made_from(context, native)
        totals = _c.Totals()
        with native.calls as calls:
            calls.check(_c.graft_evaluation_totals(native, totals))
            metrics = each(calls, _c.MetricValue, _c.graft_evaluation_metric, native, take=lambda one: (
                one.name.decode(), one.value, one.get("by_class") if one.by_class else None))
            counts, classes = ctypes.POINTER(ctypes.c_uint64)(), ctypes.c_size_t()
            asked = _c.graft_evaluation_confusion(native, ctypes.byref(counts), ctypes.byref(classes)) == 0
            #: Rows are what samples are, columns what they were taken for; None unless asked for.
            self.confusion: Optional[np.ndarray] = _copy(
                ctypes.addressof(counts.contents), "uint64", (classes.value, classes.value)) if asked else None
            named = iter(lambda at=itertools.count(): _c.graft_evaluation_class(native, next(at)), None)
            #: What the labels stand for; empty where nobody says.
            self.classes: list[str] = [name.decode("utf-8", "replace") for name in named]
        self.samples: int = totals.samples
        #: Means over all samples; NaN where one has no meaning.
        self.loss: float = totals.loss
        self.accuracy: float = totals.accuracy
        self.top5: float = totals.top5
        self.perplexity: float = totals.perplexity
        #: Those that were asked for, by name.
        self.metrics: dict[str, float] = {name: value for name, value, _ in metrics}
        #: Of precision, recall, f1, iou and auroc, for each class; NaN for classes that do not occur.
        self.by_class: dict[str, list[float]] = {name: classes for name, _, classes in metrics if classes is not None}

    def compare(self, before: "Evaluation") -> Comparison:
        """How this one differs from an older one of the same data; both made with outcomes=True."""
        native, earlier, found = self._native, before._native, _c.Comparison()
        with native.calls as calls:
            calls.check(_c.graft_evaluations_compare(earlier, native, found))
            return taken(Comparison, found, classes=[taken(ClassChange, one) for one in found.get("classes")])


class Verdict(NamedTuple):
    """What became of an evaluation."""

    stop: bool
    best: bool
    slower: bool  #: the learning rate fell
    learning_rate: float


class GateRow(NamedTuple):
    """One condition of a gate."""

    metric: str
    now: float
    before: float  #: of the old model; NaN without one
    holds: bool  #: the condition is met
    no_worse: bool  #: not worse than the old one by more than the margin


class GateResult(NamedTuple):
    """What a gate found."""

    passed: bool
    reason: str  #: a sentence where it did not pass
    now: float  #: the first metric of the new model
    before: float  #: of the old one; NaN without one
    p_value: float
    changed: list[int]  #: samples of which another class is predicted
    lost: list[int]  #: samples that the old model has right, and the new one does not
    gained: list[int]
    rows: list[GateRow]  #: in the order of the conditions


def evaluation_options(metrics: Sequence[str], confusion: bool, outcomes: bool,
                       training: Optional[_c.TrainerOptions] = None) -> _c.EvaluationOptions:
    return _c.EvaluationOptions(metrics=metrics, confusion=confusion, outcomes=outcomes, training=training)


def metric_names() -> str:
    """The names of metrics that there are, for sentences."""
    return _c.graft_metric_names().decode()

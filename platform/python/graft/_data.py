"""Data sets, and what models make of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from . import _graft
from ._owned import Owned
from ._tensors import as_array, fill, word

if TYPE_CHECKING:
    from ._model import Context, Model

_DTYPES = ("float32", "int32", "bool", "uint8", "int8", "float16", "bfloat16")
POOLINGS = ("default", "mean", "last", "cls")


class Field(NamedTuple):
    """One tensor of a sample."""

    name: str
    dtype: str
    shape: tuple[int, ...]  #: of one sample: without the batch
    role: str = "input"  #: "input" of the model, "target" of the loss, or "weight", how much a sample counts for; in this order
    classes: tuple[str, ...] = ()  #: what the numbers of a label stand for, where somebody says

    def _native(self) -> Any:
        return _graft.Field(self.name, _DTYPES.index(self.dtype), list(self.shape), self.role)


class Batch(NamedTuple):
    """Some samples in a row."""

    fields: dict[str, np.ndarray]
    epoch: int  #: from 0
    last_of_epoch: bool


class DataSet(Owned):
    """Samples by number; made by Context.open_data() and its neighbours."""

    def __init__(self, context: "Context", native: Any) -> None:
        self.context = context
        self._native = native
        self._made_from(context)

    @property
    def samples(self) -> Optional[int]:
        """How many there are; None where nobody knows."""
        return self._native.samples() or None

    @property
    def fields(self) -> list[Field]:
        """What one sample consists of, in order."""
        return [Field(name, "uint16" if dtype == "uint16" else dtype, tuple(shape), role, tuple(classes))
                for name, dtype, shape, role, classes in self._native.fields()]

    def add_reference(self, model: "Model", batch: int = 8) -> None:
        """What `model`, without adapters, makes of the texts of preferences becomes part of the samples, which the losses "dpo",
        "ipo" and "kto" learn the difference to. Computed once; before the set has a loader."""
        self._native.add_reference(model._native, batch)

    def select(self, rows: Sequence[int]) -> "DataSet":
        """The samples of these numbers, in this order, as a set of its own: of a client, or a fold of a cross-validation. Of
        all that read one set, one has a loader at a time."""
        return DataSet(self.context, self._native.select([int(row) for row in rows]))

    def split(self, way: str, parts: int, seed: int = 0) -> list[np.ndarray]:
        """The numbers of each part's samples, for select(): all are shared out, the same by the same seed.

        way: "iid", at random in equal parts; "dirichlet=ALPHA", of each label in shares drawn from a Dirichlet distribution
        (Hsu et al. 2019); "shards=N", sorted by label, N pieces to each part (McMahan et al. 2017). A part may have none.
        """
        return [np.array(rows, "uint64") for rows in self._native.split(way, parts, seed)]

    def loader(self, *, batch: int = 32, seed: int = 0, shuffle: bool = True, drop_last: bool = False, epochs: int = 1,
               shuffle_buffer: int = 1024, memory_limit: int = 0, read_threads: int = 0) -> "Loader":
        """Batches, read ahead; a set has one loader at a time.

        seed: of the order. epochs: 0 for no end. shuffle_buffer: samples, where nobody knows how many there are.
        memory_limit: bytes for batches and buffers, 0 for none. read_threads: where each sample is a file; 0: as many as
        cores, 8 at most.
        """
        options = fill(_graft.LoaderOptions(), batch=batch, seed=seed, in_order=not shuffle, drop_last=drop_last,
                       epochs=epochs, shuffle_buffer=shuffle_buffer, memory_limit=memory_limit, read_threads=read_threads)
        return Loader(self, self._native.loader(options))


class Loader(Owned):
    """Batches of a data set, as an iterator and for Trainer.train_next(); made by DataSet.loader()."""

    def __init__(self, data: DataSet, native: Any) -> None:
        self.data = data
        self._native = native
        self._made_from(data)
        self._fields = data.fields
        self._sizes = [int(np.prod(field.shape, dtype="int64")) * np.dtype(_plain(field.dtype)).itemsize
                       for field in self._fields]

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        found = self._native.next(self._sizes)
        if found is None:
            raise StopIteration
        contents, samples, epoch, last = found
        arrays = {field.name: np.frombuffer(content, _plain(field.dtype)).reshape((samples, *field.shape))
                  for field, content in zip(self._fields, contents)}
        return Batch(arrays, epoch, last)


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
    return DataSet(context, _graft.data_of(context._native, [field._native() for field in fields], arrays, samples.pop()))


def data_by(context: "Context", fields: Sequence[Field], read: Callable[[int], Optional[Mapping[str, Any]]],
            samples: int) -> DataSet:
    """See Context.data_by()."""
    wanted = list(fields)

    def sample(index: int) -> Optional[list[bytes]]:
        found = read(index)
        if found is None:
            return None
        parts = []
        for field in wanted:
            array = as_array(found[field.name], _plain(field.dtype), f"{field.name!r} of sample {index}")
            if array.shape != tuple(field.shape):
                raise ValueError(f"{field.name!r} of sample {index} is {list(array.shape)}, not {list(field.shape)}.")
            parts.append(array.tobytes())
        return parts

    return DataSet(context, _graft.data_by(context._native, [field._native() for field in wanted], samples, sample))


def data_options(*, evaluation: bool, length: int, sequence_starts: bool, first: int, count: int, preference: str,
                 pooling: str) -> Any:
    return fill(_graft.DataOptions(), evaluation=evaluation, length=length, sequence_starts=sequence_starts, first=first,
                count=count, preference=word("preference", preference, ("none", "pairs", "labelled", "groups")),
                pooling=word("pooling", pooling, POOLINGS))


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
        self._native = native
        self._made_from(context)
        told = native.told()
        self.samples: int = told["samples"]
        #: Means over all samples; NaN where one has no meaning.
        self.loss: float = told["loss"]
        self.accuracy: float = told["accuracy"]
        self.top5: float = told["top5"]
        self.perplexity: float = told["perplexity"]
        #: Those that were asked for, by name.
        self.metrics: dict[str, float] = dict(told["metrics"])
        #: Of precision, recall, f1, iou and auroc, for each class; NaN for classes that do not occur.
        self.by_class: dict[str, list[float]] = told["by_class"]
        #: Rows are what samples are, columns what they were taken for; None unless asked for.
        self.confusion: Optional[np.ndarray] = np.array(told["confusion"], "uint64") if told["confusion"] else None
        #: What the labels stand for; empty where nobody says.
        self.classes: list[str] = told["classes"]

    def compare(self, before: "Evaluation") -> Comparison:
        """How this one differs from an older one of the same data; both made with outcomes=True."""
        told = self._native.compare(before._native)
        told["classes"] = [ClassChange(*one) for one in told["classes"]]
        return Comparison(**told)


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


def evaluation_options(metrics: Sequence[str], confusion: bool, outcomes: bool) -> Any:
    return fill(_graft.EvaluationOptions(), metrics=[metrics] if isinstance(metrics, str) else list(metrics),
                confusion=confusion, outcomes=outcomes)


def metric_names() -> str:
    """The names of metrics that there are, for sentences."""
    return _graft.metric_names()

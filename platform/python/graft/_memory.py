"""A memory of examples, which a model learns from for years."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from . import _c
from ._data import DataSet, Field, _plain
from ._library import text_of
from ._owned import Owned
from ._tensors import as_array

if TYPE_CHECKING:
    from ._model import Context


class Record(NamedTuple):
    """What a memory knows of one of its records."""

    id: str
    number: int  #: by arrival, from 0
    label: int  #: the class; 0 for samples without one
    loss: Optional[float]  #: None: not known
    added_ms: int  #: since 1970
    expires_ms: int  #: 0: never
    may_train: bool
    may_evaluate: bool
    may_export: bool
    held_out: bool  #: never trained on


class Added(NamedTuple):
    """What became of a record."""

    id: str
    stored: bool  #: False: the policy evicted it itself, or the memory has it already
    known: bool  #: the memory has the same record already
    evicted: list[str]  #: ids of records that went for it


class MemoryInfo(NamedTuple):
    """What a memory is and holds."""

    records: int
    held_out: int  #: of them, never trained on
    bytes: int  #: of the file
    record_bytes: int
    most_bytes: int  #: the file's limit
    most_records: int  #: 0: no limit
    torn_bytes: int  #: that a crash had left of a record, when it was opened
    policy: str
    held_out_share: float
    seed: int


def _record(told: _c.MemoryRecord) -> Record:
    return Record(told.id.decode(), told.number, told.label, None if math.isnan(told.loss) else told.loss, told.added_ms, told.expires_ms,
                  bool(told.may_train), bool(told.may_evaluate), bool(told.may_export), bool(told.is_held_out))


class MemoryFile(Owned):
    """A file of examples of bounded size; made by Context.open_memory()."""

    def __init__(self, context: "Context", native: Any, fields: Sequence[Field]) -> None:
        self.context = context
        self._made_from(context, native)
        self._fields = list(fields)

    def add(self, sample: Mapping[str, Any], id: str = "", *, loss: Optional[float] = None, added_ms: int = 0, expires_ms: int = 0,
            may_train: bool = True, may_evaluate: bool = True, may_export: bool = False) -> Added:
        """Adds a sample of arrays by name. It is on storage when the call returns.

        id: "": a hash of the contents. added_ms, expires_ms: milliseconds since 1970; 0: now, and never. may_train, may_evaluate,
        may_export: consent.
        """
        arrays = []
        for field in self._known_fields():
            array = as_array(sample[field.name], _plain(field.dtype), repr(field.name))
            if array.shape != tuple(field.shape):
                raise ValueError(f"{field.name!r} of the sample is {list(array.shape)}, not {list(field.shape)}.")
            arrays.append(array)
        contents = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        options = _c.RecordOptions(loss=loss or 0.0, has_loss=loss is not None, added_ms=added_ms, expires_ms=expires_ms,
                                   may_train=may_train, may_evaluate=may_evaluate, may_export=may_export)
        return self._ask(_c.MemoryAdded, _c.graft_memory_add, text_of(id), contents, len(arrays), options, take=lambda told: Added(
            told.id.decode(), bool(told.stored), bool(told.is_known), told.evicted.decode().splitlines()))

    def add_data(self, data: DataSet, prefix: str = "", **consent: Any) -> int:
        """Adds all samples of a set; how many the memory then has of them. Ids are `prefix` and the sample's number, or hashes."""
        return self._ask(ctypes.c_uint64, _c.graft_memory_add_data, data._native, text_of(prefix), _c.RecordOptions(**consent))

    def set_loss(self, id: str, loss: float) -> None:
        """The record's loss now, for the policy "loss"."""
        self._call(_c.graft_memory_set_loss, text_of(id), loss)

    def remove(self, *ids: str) -> None:
        """Erases records: when it returns, the file has no byte of them."""
        self._call(_c.graft_memory_remove, (ctypes.c_char_p * len(ids))(*(text_of(id) for id in ids)), len(ids))

    def expire(self, now_ms: int = 0) -> int:
        """Erases records of which the time is over; how many."""
        return self._ask(ctypes.c_uint64, _c.graft_memory_expire, now_ms)

    @property
    def records(self) -> list[Record]:
        """All of them, by id."""
        return self._each(_c.MemoryRecord, _c.graft_memory_at, take=_record)

    def find(self, id: str) -> Record:
        """The record of this id."""
        return self._ask(_c.MemoryRecord, _c.graft_memory_find, text_of(id), take=_record)

    def read(self, id: str) -> dict[str, np.ndarray]:
        """A record's sample, by name."""
        native, data, size, out = self._native, ctypes.c_void_p(), ctypes.c_size_t(), {}
        fields = self._known_fields()
        with native.calls as calls:
            calls.check(_c.graft_memory_read(native, text_of(id), ctypes.byref(data), ctypes.byref(size)))
            whole = ctypes.string_at(data, size.value)
        at = 0
        for field in fields:
            array = np.frombuffer(whole, _plain(field.dtype), math.prod(field.shape), at).reshape(field.shape)
            out[field.name], at = array.copy(), at + array.nbytes
        return out

    @property
    def info(self) -> MemoryInfo:
        """What it is and holds."""
        return self._ask(_c.MemoryInfo, _c.graft_memory_describe, take=lambda told: MemoryInfo(
            told.records, told.held_out_records, told.bytes, told.record_bytes, told.most_bytes, told.most_records, told.torn_bytes,
            _c.MemoryPolicy(told.policy).name, told.held_out_share, told.seed))

    def data(self, part: str = "training", now_ms: int = 0) -> DataSet:
        """Its records as they are now: to train on ("training"), to evaluate on ("held_out") or that may leave ("export")."""
        return DataSet(self.context, self._make(_c.graft_memory_data, int(_c.MemoryPart[part]), now_ms, destroy=_c.graft_data_destroy))

    def mix(self, data: DataSet, share: float, now_ms: int = 0) -> DataSet:
        """All samples of a set, and records of the memory, which are `share` of an epoch; for a loader with keyed=True."""
        return DataSet(self.context, self._make(_c.graft_memory_mix, data._native, share, now_ms, destroy=_c.graft_data_destroy,
                                                uses=data._native))

    def first_use(self, data: DataSet, id: str, *, batch: int = 32, seed: int = 0, drop_last: bool = False, epochs: int = 1,
                  limit: int = 0) -> Optional[int]:
        """The first batch, from 0, that has a record, of a keyed loader with these options on what data() or mix() gave; None:
        no batch of the epochs has it, or none of the first `limit`."""
        options = _c.LoaderOptions(batch=batch, seed=seed, drop_last=drop_last, epochs=epochs, keyed=True)
        native, first = data._native, ctypes.c_uint64()
        with native.calls as calls:
            status = _c.graft_memory_first_use(native, options, text_of(id), limit, ctypes.byref(first))
            if status == _c.Status.not_found:
                return None
            calls.check(status)
            return first.value

    def _known_fields(self) -> list[Field]:
        if not self._fields:
            raise ValueError("Open the memory with fields=... or like=... to add samples or to read them.")
        return self._fields

"""Several workers of one run."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any, Optional, Protocol, Sequence

from . import _c
from ._errors import error_of
from ._library import Unraised

_SHARING = ("shard_optimizer", "moves_shares", "bf16_wire", "overlap")


class Group(Protocol):
    """One worker's end of a group that an app makes over mpi4py, torch.distributed, sockets, ...: the option group of its
    trainer. All workers make the same calls in the same order, one at a time.

    Beside what stands here it may have reform(), after exchange() has failed because a worker is gone: those that are left
    meet again, and it returns the new (rank, size); waiting(), which says of worker 0 whether somebody waits to take part;
    and the attributes that ThreadGroup takes as options, the same for all.
    """

    rank: int  #: 0 to size - 1
    size: int

    def exchange(self, out: Sequence[Sequence[memoryview]], into: Sequence[Sequence[memoryview]],
                 deadline: Optional[float]) -> None:
        """Gives out[part][r] to worker r, and fills into[part][r] with what comes from it, for each worker, this one included.
        Views may be empty, and are valid in the call only. deadline: in seconds; None: none. Raises TimeoutError or
        another OSError where a worker does not come or is gone: the step fails with graft.Timeout or graft.IoError."""

    def leave(self, failure: Optional[str]) -> None:
        """This worker makes no further call: what the others wait for fails. None: its work is done."""


class ThreadGroup:
    """The ends of a group of threads of this process, as in Trainer's option group=ends[rank]; each trainer has a context of
    its own.

    shard_optimizer: each keeps the optimizer's state of some parameters alone, to the same bits: Trainer.gather() brings it
    together before a snapshot. moves_shares: whoever is slower gets fewer micro-batches. bf16_wire: gradients are rounded
    on their way, to other bits. overlap: they are sent while the next micro-batch is computed.
    """

    def __init__(self, size: int, *, shard_optimizer: bool = False, moves_shares: bool = False, bf16_wire: bool = False,
                 overlap: bool = False) -> None:
        if not 1 <= size <= 1024:
            raise error_of(_c.Status.invalid_argument, "A group has 1 to 1024 threads.")
        ends = (_c.Group * size)(*(_c.Group() for _ in range(size)))
        if status := _c.graft_group_in_process(size, ends):
            raise error_of(status, "The group's threads have no memory.")
        self._ends = [_End(end, shard_optimizer, moves_shares, bf16_wire, overlap) for end in ends]
        for end in self._ends:
            weakref.finalize(end, _c.graft_group_release, end._native)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, rank: int) -> Any:
        return self._ends[rank]


class _End:
    """An end as C takes it."""

    def __init__(self, native: _c.Group, *sharing: bool) -> None:
        self._native = native
        for name, value in zip(_SHARING, sharing):
            setattr(native, name, bool(value))


def group_of(group: Any) -> _End:
    """The end of a Group, or of a ThreadGroup's item."""
    if isinstance(group, _End):
        return group
    if isinstance(group, ThreadGroup):
        raise TypeError("A trainer takes one end of a ThreadGroup: group[rank].")
    size = group.size

    def told(call: Any) -> Any:
        """What it raises becomes a status and its sentence."""
        def function(user: Any, *arguments: Any) -> int:
            *given, message, room = arguments
            try:
                call(*given)
                return _c.Status.ok
            except BaseException as raised:
                sentence = str(raised).encode("utf-8", "replace")[:room - 1] + b"\0"
                ctypes.memmove(message, sentence, len(sentence))
                return (_c.Status.timeout if isinstance(raised, TimeoutError) else _c.Status.io_error if isinstance(raised, OSError)
                        else _c.Status.cancelled if isinstance(raised, KeyboardInterrupt) else _c.Status.invalid_argument)

        return function

    def views(parts: int, pointers: Any, sizes: Any, readonly: bool) -> list[list[memoryview]]:
        def view(i: int) -> memoryview:
            made = memoryview((ctypes.c_char * sizes[i]).from_address(pointers[i] or 0)).cast("B") if sizes[i] else memoryview(bytearray())
            return made.toreadonly() if readonly else made

        return [[view(part * size + rank) for rank in range(size)] for part in range(parts)]

    def exchange(parts: int, out: Any, out_bytes: Any, into: Any, in_bytes: Any, deadline_ms: int) -> None:
        given, taken = views(parts, out, out_bytes, True), views(parts, into, in_bytes, False)
        group.exchange(given, taken, None if deadline_ms == 2**64 - 1 else deadline_ms / 1e3)
        for row in given + taken:  # the memory is graft's again: whoever kept a view finds it released
            for view in row:
                view.release()

    def reform(rank: Any, new_size: Any) -> None:
        nonlocal size
        rank[0], size = group.reform()
        new_size[0] = size

    def leave(user: Any, why: int, message: Optional[bytes]) -> None:
        group.leave(None if why == _c.Status.ok else (message or b"").decode("utf-8", "replace"))

    def waiting(user: Any) -> int:
        try:
            return bool(group.waiting())
        except BaseException as raised:
            Unraised(raised)
            return 0

    native = _c.Group(rank=group.rank, size=size, exchange=told(exchange), leave=leave,
                      reform=told(reform) if hasattr(group, "reform") else None, waiting=waiting if hasattr(group, "waiting") else None)
    return _End(native, *(getattr(group, name, False) for name in _SHARING))

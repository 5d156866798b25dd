"""Several workers of one run."""

from __future__ import annotations

from typing import Any, Optional, Protocol, Sequence

from . import _graft

#: What ended a group's last step: see Trainer.trouble.
TROUBLES = ("", "lost", "newcomer", "differs")
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
        self._ends = _graft.thread_ends(size)
        for end in self._ends:
            end.share_steps(shard_optimizer, moves_shares, bf16_wire, overlap)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, rank: int) -> Any:
        return self._ends[rank]


def native_group(group: Any) -> Any:
    """The native end of a Group, or of a ThreadGroup's item."""
    if isinstance(group, _graft.GroupEnd):
        return group
    if isinstance(group, ThreadGroup):
        raise TypeError("A trainer takes one end of a ThreadGroup: group[rank].")
    end = _graft.group_end(group)
    end.share_steps(*(bool(getattr(group, name, False)) for name in _SHARING))
    return end

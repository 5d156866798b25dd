"""What training changed, for federated rounds."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence, Union

import numpy as np

from . import _graft
from ._owned import Owned
from ._tensors import TensorInfo, fill, word

if TYPE_CHECKING:
    from ._model import Context, Model

_CODINGS = ("float32", "bfloat16", "int8", "fixed")


class DeltaInfo(NamedTuple):
    """What a delta says of itself."""

    base: str  #: the weights that it was made for, as 32 hexadecimal digits
    base_file: str  #: their file's name
    of_adapters: bool  #: it holds whole adapters, not changes
    samples: int  #: of all clients
    clients: int
    local_steps: int
    rank: int  #: of adapters; 0: none
    coding: str
    norm: float  #: before it was clipped
    clip_norm: float  #: 0: it was not
    noise: float  #: standard deviation of the noise in each number
    tensors: int
    numbers: int
    fixed_bits: int  #: of the coding "fixed"
    kept: float  #: of an average of products: share of the exact average's squared norm that its matrices hold


class Delta(Owned):
    """`updated` less `base`: two models of one graph; where `updated` has adapters, these, or what changed of them.

    samples: that training used, what an average weighs by. coding: "float32", "bfloat16", "int8" (blocks with a scale) or
    "fixed", integers modulo 2^32 for secure aggregation (fixed_bits, room: clients whose integers must fit in a sum).
    clip_norm: the whole delta is scaled to this L2 norm where it is longer; 0: not. noise: normal noise of so many times
    clip_norm. residual: a file that keeps what coding lost, to be added to the next round's delta.
    """

    def __init__(self, base: "Model", updated: "Model", *, samples: int = 1, local_steps: int = 0, coding: str = "float32",
                 fixed_bits: int = 8, room: int = 1024, clip_norm: float = 0, noise: float = 0,
                 residual: Union[str, "os.PathLike[str]"] = "") -> None:
        options = fill(_graft.DeltaOptions(), samples=samples, local_steps=local_steps,
                       coding=word("coding", coding, _CODINGS), fixed_bits=fixed_bits, room=room, clip_norm=clip_norm,
                       noise=noise, residual=os.fspath(residual))
        self._native = _graft.make_delta(base._native, updated._native, options)
        self._made_from(base.context)

    @classmethod
    def _of(cls, context: "Context", native: Any) -> "Delta":
        made = cls.__new__(cls)
        made._native = native
        made._made_from(context)
        return made

    @classmethod
    def load(cls, context: "Context", source: Union[str, "os.PathLike[str]", bytes]) -> "Delta":
        """A file by its path, or its bytes."""
        if isinstance(source, bytes):
            return cls._of(context, _graft.load_delta_bytes(context._native, source))
        return cls._of(context, _graft.load_delta(context._native, os.fspath(source)))

    @classmethod
    def average(cls, context: "Context", deltas: Sequence["Delta"], *, equal: bool = False, products: bool = False,
                rank: int = 0, noise: float = 0, clip_norm: float = 0, expected_clients: float = 0) -> "Delta":
        """Of deltas of one base, by their samples, or where `equal` alike.

        products: of adapters, what their matrices multiply to is averaged and factored again, to `rank`, 0: the largest of
        them. noise: on the clients' sum, of so many times clip_norm, what each was clipped to; with equal.
        expected_clients: with noise, what the sum is divided by; 0: the deltas' number.
        """
        options = fill(_graft.AverageOptions(), equal=equal, products=products, rank=rank, noise=noise,
                       clip_norm=clip_norm, expected_clients=expected_clients)
        return cls._of(context, _graft.average_deltas(context._native, [delta._native for delta in deltas], options))

    @property
    def info(self) -> DeltaInfo:
        """What it says of itself."""
        told = self._native.describe()
        told["coding"] = _CODINGS[told["coding"]]
        return DeltaInfo(**told)

    @property
    def tensors(self) -> list[TensorInfo]:
        """In the order of names."""
        return [TensorInfo(*self._native.tensor(index)) for index in range(self.info.tensors)]

    def numbers(self, name: str) -> np.ndarray:
        """Decoded numbers of a tensor, in its shape."""
        shape = next((info.shape for info in self.tensors if info.name == name), None)
        found = self._native.numbers(name)
        return found if shape is None else found.reshape(shape)

    def integers(self, name: str) -> np.ndarray:
        """The integers of a tensor of the coding "fixed", in place: a mask is added to them before they are sent."""
        return self._native.integers(name)

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes a file, atomically."""
        self._native.save(os.fspath(path))

    def __bytes__(self) -> bytes:
        """The file's bytes, to send."""
        return self._native.bytes()

    def apply_to(self, model: "Model", rate: float = 1) -> None:
        """Adds it, times rate, to the model, which must have no sessions, generators or trainers."""
        model._unused("apply_to")
        self._native.apply_to(model._native, rate)


class Averager(Owned):
    """Averages a delta at a time, of which none needs to stay: for many clients. Not of products."""

    def __init__(self, context: "Context", *, equal: bool = False, noise: float = 0, clip_norm: float = 0,
                 expected_clients: float = 0) -> None:
        self._native = _graft.averager(context._native, fill(_graft.AverageOptions(), equal=equal, noise=noise,
                                                             clip_norm=clip_norm, expected_clients=expected_clients))
        self.context = context
        self._made_from(context)

    def add(self, delta: Delta) -> None:
        """One more client's."""
        self._native.add(delta._native)

    def finish(self) -> Delta:
        """The average of what was added; the averager is then done."""
        return Delta._of(self.context, self._native.finish())


class Server(Owned):
    """What a server does with an average: a step of an optimizer whose gradient it is (Reddi et al. 2021).

    kind: "fedavg" (momentum beta1), "fedadagrad", "fedadam" or "fedyogi" (beta2); tau: the least divisor of these.
    """

    def __init__(self, context: "Context", kind: str = "fedavg", *, rate: float = 1, beta1: float = 0, beta2: float = 0.99,
                 tau: float = 1e-3) -> None:
        number = word("server", kind, ("fedavg", "fedadagrad", "fedadam", "fedyogi"))
        self._native = _graft.server(context._native, number, rate, beta1, beta2, tau)
        self.context = context
        self._made_from(context)

    @property
    def keeps(self) -> bool:
        """Whether it has moments, which the next round needs."""
        return self._native.keeps()

    def load(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Moments of a file that save() wrote after the round before."""
        self._native.load(os.fspath(path))

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes them, atomically."""
        self._native.save(os.fspath(path))

    def step(self, base: "Model", average: Delta) -> Delta:
        """What the average becomes, for Delta.apply_to() at the rate 1."""
        return Delta._of(self.context, self._native.step(base._native, average._native))


def privacy(context: "Context", *, noise: float, share: float, rounds: int, delta: float) -> float:
    """epsilon at `delta`, where each round takes each client with probability `share`, clips its delta, and adds noise of
    `noise` times the norm clipped to."""
    return _graft.delta_privacy(context._native, noise, share, rounds, delta)

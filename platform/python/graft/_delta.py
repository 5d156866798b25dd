"""What training changed, for federated rounds."""

from __future__ import annotations

import ctypes
import os
from typing import TYPE_CHECKING, Any, NamedTuple, Sequence, Union

import numpy as np

from . import _c
from ._library import taken, text_of
from ._owned import Handle, Owned, source_of
from ._tensors import TensorInfo, tensor_of

if TYPE_CHECKING:
    from ._model import Context, Model

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
        options = _c.DeltaOptions(samples=samples, local_steps=local_steps, coding=coding, fixed_bits=fixed_bits, room=room,
                                  clip_norm=clip_norm, noise=noise, residual=residual)
        self._made_from(base.context, base._make(_c.graft_delta_make, updated._native, options, destroy=_c.graft_delta_destroy))

    @classmethod
    def _of(cls, context: "Context", native: Any) -> "Delta":
        made = cls.__new__(cls)
        made._made_from(context, native)
        return made

    @classmethod
    def load(cls, context: "Context", source: Union[str, "os.PathLike[str]", bytes]) -> "Delta":
        """A file by its path, or its bytes."""
        given = (_c.graft_delta_load_source, source_of(source)) if isinstance(source, bytes) else (_c.graft_delta_load, text_of(source))
        return cls._of(context, context._make(*given, destroy=_c.graft_delta_destroy))

    @classmethod
    def average(cls, context: "Context", deltas: Sequence["Delta"], *, equal: bool = False, products: bool = False,
                rank: int = 0, noise: float = 0, clip_norm: float = 0, expected_clients: float = 0) -> "Delta":
        """Of deltas of one base, by their samples, or where `equal` alike.

        products: of adapters, what their matrices multiply to is averaged and factored again, to `rank`, 0: the largest of
        them. noise: on the clients' sum, of so many times clip_norm, what each was clipped to; with equal.
        expected_clients: with noise, what the sum is divided by; 0: the deltas' number.
        """
        options = _c.AverageOptions(equal=equal, products=products, rank=rank, noise=noise, clip_norm=clip_norm,
                                    expected_clients=expected_clients)
        natives = [delta._native for delta in deltas]
        pointers = (ctypes.c_void_p * len(natives))(*(native._as_parameter_.value for native in natives))
        return cls._of(context, context._make(_c.graft_delta_average, pointers, len(natives), options, destroy=_c.graft_delta_destroy))

    @property
    def info(self) -> DeltaInfo:
        """What it says of itself."""
        return self._ask(_c.DeltaInfo, _c.graft_delta_describe, take=lambda info: taken(DeltaInfo, info))

    @property
    def tensors(self) -> list[TensorInfo]:
        """In the order of names."""
        return self._each(_c.TensorInfo, _c.graft_delta_tensor, take=tensor_of)

    def numbers(self, name: str) -> np.ndarray:
        """Decoded numbers of a tensor, in its shape."""
        shape = next((info.shape for info in self.tensors if info.name == name), ())
        found = np.empty(shape, "float32")
        self._call(_c.graft_delta_numbers, name.encode(), found.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), found.size)
        return found

    def integers(self, name: str) -> np.ndarray:
        """The integers of a tensor of the coding "fixed", in place: a mask is added to them before they are sent."""
        native, size = self._native, ctypes.c_size_t()
        found = ctypes.POINTER(ctypes.c_uint32)()
        native.calls.call(_c.graft_delta_integers, native, name.encode(), ctypes.byref(found), ctypes.byref(size))
        memory = (ctypes.c_uint32 * size.value).from_address(ctypes.addressof(found.contents))
        memory._delta = native  # stays as long
        return np.ctypeslib.as_array(memory)

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes a file, atomically."""
        self._call(_c.graft_delta_save, text_of(path))

    def __bytes__(self) -> bytes:
        """The file's bytes, to send."""
        data = ctypes.c_void_p()
        return self._ask(ctypes.c_size_t, _c.graft_delta_bytes, ctypes.byref(data), take=lambda size: ctypes.string_at(data, size.value))

    def apply_to(self, model: "Model", rate: float = 1) -> None:
        """Adds it, times rate, to the model, which must have no sessions, generators or trainers."""
        model._unused("apply_to")
        model._call(_c.graft_delta_apply, self._native, rate)


class Averager(Owned):
    """Averages a delta at a time, of which none needs to stay: for many clients. Not of products."""

    def __init__(self, context: "Context", *, equal: bool = False, noise: float = 0, clip_norm: float = 0,
                 expected_clients: float = 0) -> None:
        options = _c.AverageOptions(equal=equal, noise=noise, clip_norm=clip_norm, expected_clients=expected_clients)
        self.context = context
        self._made_from(context, context._make(_c.graft_averager_create, options, destroy=_c.graft_averager_destroy))

    def add(self, delta: Delta) -> None:
        """One more client's."""
        self._call(_c.graft_averager_add, delta._native)

    def finish(self) -> Delta:
        """The average of what was added; the averager is then done."""
        return Delta._of(self.context, self._make(_c.graft_averager_finish, destroy=_c.graft_delta_destroy))


class Server(Owned):
    """What a server does with an average: a step of an optimizer whose gradient it is (Reddi et al. 2021).

    kind: "fedavg" (momentum beta1), "fedadagrad", "fedadam" or "fedyogi" (beta2); tau: the least divisor of these.
    """

    def __init__(self, context: "Context", kind: str = "fedavg", *, rate: float = 1, beta1: float = 0, beta2: float = 0.99,
                 tau: float = 1e-3) -> None:
        options = _c.ServerOptions(kind=kind, rate=rate, beta1=beta1, beta2=beta2, tau=tau)
        self.context = context
        self._made_from(context, context._make(_c.graft_server_create, options, destroy=_c.graft_server_destroy))

    @property
    def keeps(self) -> bool:
        """Whether it has moments, which the next round needs."""
        native = self._native
        with native.calls:
            return bool(_c.graft_server_keeps(native))

    def load(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Moments of a file that save() wrote after the round before."""
        self._call(_c.graft_server_load, text_of(path))

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """Writes them, atomically."""
        self._call(_c.graft_server_save, text_of(path))

    def step(self, base: "Model", average: Delta) -> Delta:
        """What the average becomes, for Delta.apply_to() at the rate 1."""
        return Delta._of(self.context, self._make(_c.graft_server_step, base._native, average._native, destroy=_c.graft_delta_destroy))


def privacy(context: "Context", *, noise: float, share: float, rounds: int, delta: float) -> float:
    """epsilon at `delta`, where each round takes each client with probability `share`, clips its delta, and adds noise of
    `noise` times the norm clipped to."""
    return context._ask(ctypes.c_double, _c.graft_delta_privacy, noise, share, rounds, delta)

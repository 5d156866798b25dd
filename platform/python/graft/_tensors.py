"""Arrays on their way in, and what is told of tensors."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _c


class TensorInfo(NamedTuple):
    """What is known of a tensor without its numbers."""

    name: str
    dtype: str  #: "float32", "int32" or "bool"
    shape: tuple[Union[int, str], ...]  #: a name such as "batch" where a dimension is not bound


class InputFormat(NamedTuple):
    """How a session or a trainer takes one of its float32 inputs: the device makes array * scale + offset of it.

    Pixels of 0 to 255 that PyTorch normalises by mean and std have scale 1 / (255 * std) and offset -mean / std.
    """

    dtype: str  #: "uint8", "int8", "float16", or "bfloat16" in arrays of uint16
    channels_last: bool = False  #: [N, H, W, C] where the model takes [N, C, H, W]
    scale: Union[float, Sequence[float]] = ()  #: one number, or one for each channel, at most four
    offset: Union[float, Sequence[float]] = ()

    def given(self, info: TensorInfo) -> TensorInfo:
        """The input as this format gives it."""
        shape = info.shape
        if self.channels_last and len(shape) > 2:
            shape = (shape[0], *shape[2:], shape[1])
        return TensorInfo(info.name, "uint16" if self.dtype == "bfloat16" else self.dtype, shape)

    def _struct(self, name: str) -> _c.InputFormat:
        return _c.InputFormat(name=name, element=self.dtype, channels_last=self.channels_last, scale=np.ravel(self.scale).tolist(),
                              offset=np.ravel(self.offset).tolist())


class Memory(NamedTuple):
    """Bytes of device and staging memory by class, known before anything runs."""

    weights: int
    parameters: int
    gradients: int
    optimizer: int
    activations: int
    workspace: int
    staging: int
    step_state: int
    total: int


#: As numpy calls element types, which has no bfloat16.
DTYPES = ("float32", "int32", "bool", "uint8", "int8", "float16", "uint16")


def tensor_of(info: _c.TensorInfo, shape: Optional[Sequence[Union[int, str]]] = None) -> TensorInfo:
    return TensorInfo(info.name.decode(), DTYPES[info.dtype], tuple(info.dims[:info.rank] if shape is None else shape))


def dtype_of(info: _c.TensorInfo) -> str:
    """Of the memory that holds its numbers: those of type bool are int32."""
    return "float32" if info.dtype == _c.Dtype.float32 else "int32"


def as_array(value: Any, dtype: str, what: str) -> np.ndarray:
    """A contiguous array of the given dtype: anything that numpy takes, or a tensor on the CPU with DLPack.

    Converted where that loses nothing: from narrower numbers, from int64 whose values fit, from Python's own numbers,
    from any strides. Others are a TypeError, integers that do not fit a ValueError.
    """
    array, own = _plain(value, what)
    wanted = np.dtype("int32" if dtype == "bool" else dtype)
    kind = array.dtype.kind
    if kind not in "fiub":
        raise TypeError(f"{what} is to be {dtype}, and {array.dtype} does not become that.")
    if dtype == "bool" and kind != "b":
        raise TypeError(f"{what} is to be bool and is {array.dtype}.")
    if dtype == "int32" and kind in "iu" and not np.can_cast(array.dtype, wanted):
        if array.size and (array.max() > 2**31 - 1 or array.min() < -(2**31)):
            raise ValueError(f"{what} holds integers beyond 32 bits.")
    elif not own and not np.can_cast(array.dtype, wanted):
        raise TypeError(f"{what} is to be {dtype} and is {array.dtype}, which would lose something: convert it by "
                        f"astype({dtype!r}) if that is meant.")
    elif own and dtype == "int32" and kind == "f" and array.size:
        raise TypeError(f"{what} is to be int32 and holds fractions.")
    return np.ascontiguousarray(array, dtype=wanted).reshape(array.shape)


def new_weights(known: list[TensorInfo], needed: list[TensorInfo], given: Mapping[str, Any],
                strict: bool) -> dict[str, np.ndarray]:
    """What load_state_dict() writes, all of it checked before the first is written."""
    infos = {info.name: info for info in known}
    taken_names = [name for name in given if not name.endswith("num_batches_tracked")]
    if strict:
        missing = [info.name for info in needed if info.name not in given]
        unknown = [name for name in taken_names if name not in infos]
        if missing or unknown:
            raise ValueError(f"The names do not fit: missing are {missing}, and unknown are {unknown}.")
    arrays = {}
    for name in taken_names:
        if name not in infos:
            continue
        array = as_array(given[name], infos[name].dtype, f"The weight {name!r}")
        if array.shape != infos[name].shape:
            raise ValueError(f"The weight {name!r} is {list(infos[name].shape)}, and the array is {list(array.shape)}.")
        arrays[name] = array
    return arrays


def _plain(value: Any, what: str) -> tuple[np.ndarray, bool]:
    """As numpy sees it, and whether its numbers are Python's, which have no dtype of their own."""
    if isinstance(value, np.ndarray):
        return value, False
    if hasattr(value, "detach"):  # a tensor of PyTorch, which numpy refuses while it wants gradients
        value = value.detach()
        if value.device.type != "cpu":
            raise TypeError(f"{what} lies on {value.device}: bring it to the CPU by .cpu().")
        if str(value.dtype) == "torch.bfloat16":  # which numpy does not have; float32 holds each of its numbers
            value = value.float()
    own = isinstance(value, (bool, int, float, list, tuple))
    try:
        if not hasattr(value, "__array__") and hasattr(value, "__dlpack__"):
            return np.from_dlpack(value), False
        array = np.asarray(value)
    except (ValueError, RuntimeError, BufferError) as problem:
        raise TypeError(f"{what} does not become an array: {problem}") from None
    if array.dtype == object:
        raise TypeError(f"{what} does not become an array of numbers: it is a {type(value).__name__}.")
    return array, own

"""Arrays on their way in, and what is told of tensors."""

from __future__ import annotations

import enum
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _graft


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


_ELEMENTS = ("uint8", "int8", "float16", "bfloat16")


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


def taken(kind: type, native: Any) -> Any:
    """A NamedTuple of the native struct's fields of the same names."""
    return kind(*(getattr(native, field) for field in kind._fields))


def fill(options: Any, **values: Any) -> Any:
    """Sets attributes of a native options object; None leaves the default."""
    for name, value in values.items():
        if value is None:
            continue
        try:
            setattr(options, name, value)
        except TypeError:
            raise TypeError(f"{name} cannot be {value!r}.") from None
    return options


#: Further names of words: those of the command line.
_SAME = {"ce": "cross_entropy", "mae": "l1", "bce_with_logits": "bce", "kl_div": "kl", "cosine_embedding": "cosine",
         "triplet_margin": "triplet", "infonce": "info_nce", "adamw8bit": "adamw_8bit", "f32": "float32", "f16": "float16",
         "bf16": "bfloat16"}


def word(what: str, value: Any, words: Union[tuple[str, ...], Mapping[str, int]]) -> int:
    """The number of a word in graft's enumerations. A member of an Enum stands for its text or its name, a dtype of numpy or
    PyTorch for its name; capitals do not count, and "-" is "_"."""
    name = value
    if isinstance(value, enum.Enum):
        name = value.value if isinstance(value.value, str) else value.name
    elif isinstance(value, (np.dtype, type)):
        name = np.dtype(value).name
    name = str(name).lower().replace("-", "_").replace("torch.", "")
    name = _SAME.get(name, name)
    if name not in words:
        raise ValueError(f"There is no {what} {value!r}; there are {', '.join(words)}.")
    return words[name] if isinstance(words, Mapping) else words.index(name)


def native_formats(formats: Optional[Mapping[str, InputFormat]]) -> list[Any]:
    """Formats of inputs as the native module takes them."""
    made = []
    for name, format in (formats or {}).items():
        numbers = {what: [float(x) for x in np.ravel(np.asarray(given, dtype="float64"))]
                   for what, given in (("scale", format.scale), ("offset", format.offset))}
        made.append(fill(_graft.InputFormat(), name=name, element=word("element type", format.dtype, _ELEMENTS),
                         channels_last=format.channels_last, **numbers))
    return made


PRECISIONS = ("float32", "float16", "bfloat16")
CACHE_FORMATS = PRECISIONS + ("q8_0",)


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

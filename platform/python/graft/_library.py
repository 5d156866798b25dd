"""Finds graft's libraries, and fills their structs by keyword; _c.py and _c_convert.py, which are generated, build on it."""

from __future__ import annotations

import ctypes
import enum
import operator
import os
import sys
from typing import Any, Callable, Mapping, Optional, Union

import numpy as np


def _load(name: str, interface: str) -> ctypes.CDLL:
    """Beside the package, then by GRAFT_LIBRARY (a file or its folder), then as the system finds it."""
    file = f"lib{name}.{interface}.dylib" if sys.platform == "darwin" else f"lib{name}.so.{interface}"
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), file)
    said = os.environ.get("GRAFT_LIBRARY", "")
    if os.path.exists(beside):
        path = beside
    elif said:
        path = said if name == "graft" and os.path.isfile(said) else os.path.join(said if os.path.isdir(said) else os.path.dirname(said), file)
    else:
        path = file
    try:
        return ctypes.CDLL(path)
    except OSError as missing:
        raise ImportError(f"graft's library {file} is not found: {missing}. Set GRAFT_LIBRARY to its path.") from None


def functions_of(name: str, interface: str) -> Callable[..., Any]:
    """What makes a function of a library, of its name, its result's type and its parameters'."""
    library = _load(name, interface)

    def function(symbol: str, result: Any, *parameters: Any) -> Any:
        made = getattr(library, symbol)
        made.restype, made.argtypes = result, parameters
        return made

    if name == "graft":
        version = function("graft_version", ctypes.c_char_p)().decode()
        if not version.startswith(f"{interface}."):
            raise ImportError(f"The package is for graft {interface}, and the library that was found is graft {version}.")
    return function


def text_of(value: Any) -> Optional[bytes]:
    """A str, bytes or path as C takes it; None is NULL."""
    if value is None:
        return None
    text = os.fspath(value)
    text = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    if b"\0" in text:
        raise ValueError(f"A text that C takes has no zero byte, and {value!r} has one.")
    return text


#: Further names of words: those of the command line.
_SAME = {"ce": "cross_entropy", "mae": "l1", "bce_with_logits": "bce", "kl_div": "kl", "cosine_embedding": "cosine",
         "triplet_margin": "triplet", "infonce": "info_nce", "f32": "float32", "f16": "float16", "bf16": "bfloat16"}


def word(what: str, value: Any, words: type[enum.IntEnum]) -> int:
    """The number of a word in one of graft's enumerations. A member of an Enum stands for its text or its name, a dtype of
    numpy or PyTorch for its name; capitals do not count, and "-" is "_"."""
    name = value
    if isinstance(value, enum.Enum):
        name = value.value if isinstance(value.value, str) else value.name
    elif isinstance(value, (np.dtype, type)):
        name = np.dtype(value).name
    name = str(name).lower().replace("-", "_").replace("torch.", "")
    found = words.__members__.get(_SAME.get(name, name))
    if found is None:
        raise ValueError(f"There is no {what.replace('_', ' ')} {value!r}; there are {', '.join(one.name for one in words)}.")
    return int(found)


def _number(kind: Any, value: Any) -> Union[int, float]:
    """A number that this type holds; TypeError else, also where C would wrap it around."""
    if kind in (ctypes.c_double, ctypes.c_float):
        if isinstance(value, (str, bytes)):
            raise TypeError
        return float(value)
    whole = int(value) if isinstance(value, (bool, np.bool_)) else operator.index(value)
    if kind(whole).value != whole:
        raise TypeError
    return whole


class Struct(ctypes.Structure):
    """A struct of C that Python fills by keyword: with texts, words of enums, lists, callables and other structs; None leaves
    the default. What it points to lives as long as it does."""

    _counts_: Mapping[str, str] = {}  #: of what points to an array, the member that counts its elements
    _switches_: tuple[str, ...] = ()
    _enums_: Mapping[str, type[enum.IntEnum]] = {}
    _init_: Optional[tuple[str, ...]] = None  #: the function that fills in the defaults, and which member it takes

    def __init__(self, **values: Any) -> None:
        super().__init__()
        if self._sized():
            self.struct_size = ctypes.sizeof(self)
        if self._init_ is not None:
            init = getattr(sys.modules[type(self).__module__], self._init_[0])
            init(ctypes.byref(self), *(word(key, values[key], self._enums_[key]) for key in self._init_[1:]))
        kinds = dict(self._fields_)
        for name, value in values.items():
            if value is not None:
                self._set(name, kinds[name], value)

    def _set(self, name: str, kind: Any, value: Any) -> None:
        value = getattr(value, "_native", value)
        try:
            if name in self._counts_:
                value = array_of(kind._type_, value)
                setattr(self, self._counts_[name], len(value))
                value = value if len(value) else None
            elif name in self._enums_:
                value = word(name, value, self._enums_[name])
            elif kind is ctypes.c_void_p and hasattr(value, "_as_parameter_"):
                self.__dict__.setdefault("_used", []).append(value)
                value = value._as_parameter_
            else:
                value = _element(kind, value)
                if value == b"" and self._sized():
                    value = None  # of options: the default
            setattr(self, name, value)
        except TypeError:
            raise TypeError(f"{name} cannot be {value!r}.") from None

    @classmethod
    def _sized(cls) -> bool:
        return cls._fields_[0][0] == "struct_size"

    def get(self, name: str) -> Any:
        """A member as Python has it: a str, a bool, a word, a list. Texts and lists are copies."""
        value = getattr(self, name)
        if name in self._counts_:
            return value[:getattr(self, self._counts_[name])]
        if name in self._enums_:
            return self._enums_[name](value).name
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        return bool(value) if name in self._switches_ else value


def array_of(element: Any, value: Any) -> Any:
    """An array of numbers, texts or structs, or of a mapping's pairs. A single text is a list of one."""
    if isinstance(value, Mapping):
        names = [name for name, _ in element._fields_]
        value = [one._struct(key) if hasattr(one, "_struct") else dict(zip(names, (key, one))) for key, one in value.items()]
    elif isinstance(value, str):
        value = [value] if value else []
    return (element * len(value))(*(_element(element, one) for one in value))


def _element(kind: Any, value: Any) -> Any:
    if kind is ctypes.c_char_p:  # of a list of names: with commas between
        return text_of(",".join(value) if isinstance(value, (list, tuple)) else value)
    if issubclass(kind, ctypes._Pointer) and not isinstance(value, kind):
        return ctypes.pointer(value)
    if issubclass(kind, ctypes._CFuncPtr) and not isinstance(value, kind):
        return kind(value)
    if issubclass(kind, ctypes._SimpleCData) and kind is not ctypes.c_void_p:
        return _number(kind, value)
    if issubclass(kind, ctypes.Structure) and isinstance(value, Mapping):
        return kind(**value)
    return value


def taken(kind: type, struct: Struct, **more: Any) -> Any:
    """A NamedTuple of the struct's members of the same names, and of `more`."""
    return kind(**{name: struct.get(name) for name in kind._fields if hasattr(struct, name) and name not in more}, **more)


class Unraised:
    """When it goes, sys.unraisablehook is told of an exception: in a thread of graft's nobody else can be."""

    def __init__(self, exception: BaseException) -> None:
        self.exception = exception

    def __del__(self) -> None:
        raise self.exception

"""What owns something of graft's: freed by close() or `with`, else when nobody refers to it."""

from __future__ import annotations

import weakref
from typing import Any, Optional, TypeVar

_Self = TypeVar("_Self", bound="Owned")


class Owned:
    """Has close(), and works as `with ... as`."""

    _handle: Any = None
    _parts: Optional["weakref.WeakSet[Owned]"] = None
    closed: bool = False  #: close() was called; every call is a ValueError since

    @property
    def _native(self) -> Any:
        if self.closed:
            raise ValueError(f"The {type(self).__name__} is closed.")
        return self._handle

    @_native.setter
    def _native(self, native: Any) -> None:
        self._handle = native

    def _made_from(self, parent: "Owned") -> None:
        """`parent` closes it."""
        if parent._parts is None:
            parent._parts = weakref.WeakSet()
        parent._parts.add(self)

    def close(self) -> None:
        """Frees what it owns, device memory included, and closes all that was made from it. A second call does nothing."""
        for part in list(self._parts or ()):
            part.close()
        self.closed = True
        self._handle = None

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

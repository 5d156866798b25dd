"""Calls of the library, and what owns something of it: freed by close() or `with`, else when nobody refers to it."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import threading
import weakref
from typing import Any, Callable, Optional, TypeVar

import numpy as np

from . import _c
from ._errors import error_of
from ._tensors import dtype_of

_Self = TypeVar("_Self", bound="Owned")
_LEVELS = {_c.LogLevel.debug: logging.DEBUG, _c.LogLevel.info: logging.INFO, _c.LogLevel.warning: logging.WARNING,
           _c.LogLevel.error: logging.ERROR}


class _Interrupts:
    """Ctrl-C on the main thread while it is in a call. Python runs handlers only when the call has returned; but it writes the
    signal's number to a file at once, and a thread that waits for that cancels the call."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.context: Any = None  #: whose call is in progress
        self.came = False
        self.file = -1
        self.drained = threading.Event()

    def begin(self) -> bool:
        """False where Ctrl-C does not raise KeyboardInterrupt on this thread, or somebody else has such a file."""
        if threading.get_ident() != threading.main_thread().ident or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            return False
        if self.file < 0:
            heard, self.file = os.pipe()
            os.set_blocking(self.file, False)
            threading.Thread(target=self._watch, args=(heard,), name="graft's Ctrl-C", daemon=True).start()
        before = signal.set_wakeup_fd(self.file, warn_on_full_buffer=False)
        if before != -1:
            signal.set_wakeup_fd(before)
            return False
        self.came = False
        signal.signal(signal.SIGINT, self._note)
        return True

    def end(self, context: Any) -> bool:
        """Whether Ctrl-C came."""
        with self.lock:
            self.context = None
        signal.set_wakeup_fd(-1)
        if signal.getsignal(signal.SIGINT) == self._note:  # a callback may have set another, which stays
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.came:
            self.drained.clear()
            os.write(self.file, b"\0")  # what the thread hears later would cancel the next call
            self.drained.wait()
            if context is not None:
                _c.graft_uncancel(context)
        return self.came

    def _note(self, *_: Any) -> None:
        self.came = True

    def _watch(self, heard: int) -> None:
        while True:
            numbers = os.read(heard, 64)
            with self.lock:
                if signal.SIGINT in numbers and self.context is not None:
                    _c.graft_cancel(self.context)
            if 0 in numbers:
                self.drained.set()

    def forget(self) -> None:
        """Of a child that was forked: threads are its parent's."""
        self.__init__()  # type: ignore[misc]


_interrupts = _Interrupts()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_interrupts.forget)


class Calls:
    """A context of the library. `with` it, calls on it and on all that was made from it may be made, and what they point to may
    be read: one thread at a time, Ctrl-C ends them, and what was logged is told at the end."""

    def __init__(self, options: _c.ContextOptions) -> None:
        self._as_parameter_: Any = None
        self.kept: list[Any] = []  #: what graft's own threads may use
        self.progress: Any = None
        self._lock, self._holder, self._interruptible = threading.Lock(), 0, False
        self._retired: list[Any] = []
        self._lines: list[Any] = []
        self._raised: Optional[BaseException] = None
        options._set("log", dict(options._fields_)["log"], self._take_log())
        made = ctypes.c_void_p()
        try:
            with self:
                status = _c.graft_context_create(options, ctypes.byref(made))
                if status:
                    raise error_of(status, _c.graft_message(made).decode() if made else "There is no memory for a context.")
        except BaseException:
            _c.graft_context_destroy(made)
            raise
        self._as_parameter_ = made
        weakref.finalize(self, _destroy_context, made, options, self.kept)

    def _take_log(self) -> Callable[..., None]:
        lines = self._lines  # not self, which would then never go
        return lambda user, level, message: lines.append((level, message.decode("utf-8", "replace")))

    @property
    def calls(self) -> "Calls":
        """As a Handle has them."""
        return self

    @property
    def busy_here(self) -> bool:
        """This thread is in a call: in a callback."""
        return self._holder == threading.get_ident()

    def __enter__(self) -> "Calls":
        if self.busy_here:
            raise RuntimeError("A callback must not call graft with the context that calls it.")
        interruptible = _interrupts.begin()
        self._lock.acquire()
        self._holder, self._interruptible = threading.get_ident(), interruptible
        if interruptible:
            _interrupts.context = self._as_parameter_
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        while self._retired:
            _free(self, *self._retired.pop(), here=True)
        raised, self._raised = self._raised, None
        if raised is not None:
            _c.graft_uncancel(self)  # by which set_progress() ends a call
        interruptible, self._holder = self._interruptible, 0
        self._lock.release()
        interrupted = interruptible and _interrupts.end(self._as_parameter_)
        while self._lines:
            level, message = self._lines.pop(0)
            logging.getLogger("graft").log(_LEVELS.get(level, logging.INFO), message)
        if interrupted:
            raise KeyboardInterrupt
        if raised is not None:
            raise raised

    def check(self, status: int) -> None:
        """Raises the failure that a function returned on this thread."""
        if status:
            raise error_of(status, _c.graft_message(self).decode("utf-8", "replace"))

    def call(self, function: Any, *arguments: Any) -> None:
        """One call; its failure is raised."""
        with self:
            self.check(function(*arguments))

    def made(self, function: Any, *arguments: Any, destroy: Any, uses: Any = ()) -> "Handle":
        """What a function makes as its last argument. uses: what must live as long."""
        out = ctypes.c_void_p()
        with self:
            self.check(function(*arguments, ctypes.byref(out)))
            return Handle(self, out, destroy, uses)

    def guarded(self, function: Callable[..., Any], otherwise: Any) -> Callable[..., Any]:
        """For C to call in a call on this context: what it raises is raised at the call's end, and C gets `otherwise`."""
        owner = weakref.ref(self)  # a callback that is kept does not keep the context

        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except BaseException as raised:
                owner()._raised = owner()._raised or raised  # type: ignore[union-attr]
                return otherwise

        return call


def _destroy_context(pointer: Any, options: Any, kept: Any) -> None:
    """Those that are kept may be called until the context has gone."""
    _c.graft_context_destroy(pointer)


class Handle:
    """A pointer of the library's, which is freed when nobody refers to it: after the call that its thread is in."""

    def __init__(self, calls: Calls, pointer: Any, destroy: Any, uses: Any = ()) -> None:
        self.calls, self._as_parameter_ = calls, pointer
        weakref.finalize(self, _free, calls, pointer, destroy, uses)


def _free(calls: Calls, pointer: Any, destroy: Any, uses: Any, here: bool = False) -> None:
    if calls.busy_here and not here:
        calls._retired.append((pointer, destroy, uses))
    else:
        destroy(pointer)


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

    def _made_from(self, parent: "Owned", native: Any) -> None:
        """`parent` closes it."""
        self._handle = native
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

    # ---- Calls on it, of functions whose first argument it is ----------------------------------------------------

    def _call(self, function: Any, *arguments: Any) -> None:
        native = self._native
        native.calls.call(function, native, *arguments)

    def _make(self, function: Any, *arguments: Any, destroy: Any, uses: Any = ()) -> Handle:
        native = self._native
        return native.calls.made(function, native, *arguments, destroy=destroy, uses=uses)

    def _ask(self, kind: Any, function: Any, *arguments: Any, take: Optional[Callable[[Any], Any]] = None) -> Any:
        """What a function fills in as its last argument: a number, a text, a struct, or what `take` makes of it."""
        native, out = self._native, kind()
        with native.calls as calls:
            calls.check(function(native, *arguments, ctypes.byref(out)))
            if take is not None:
                return take(out)
            if kind is ctypes.c_char_p:
                return (out.value or b"").decode("utf-8", "replace")
            return out if isinstance(out, ctypes.Structure) else out.value

    def _list(self, kind: Any, function: Any, *arguments: Any, take: Callable[[Any], Any]) -> list[Any]:
        """What a function points to by its last two arguments."""
        native, items, count = self._native, ctypes.POINTER(kind)(), ctypes.c_size_t()
        with native.calls as calls:
            calls.check(function(native, *arguments, ctypes.byref(items), ctypes.byref(count)))
            return [take(items[i]) for i in range(count.value)]

    def _each(self, kind: Any, function: Any, *arguments: Any, take: Callable[[Any], Any]) -> list[Any]:
        """What a function fills in for 0, 1, ... as its last argument but one, until there is no more."""
        native = self._native
        with native.calls as calls:
            return each(calls, kind, function, native, *arguments, take=take)

    def _read(self, function: Any, name: str) -> np.ndarray:
        """A weight, by a function that fills memory of the caller's."""
        native, info, named = self._native, _c.TensorInfo(), name.encode()
        with native.calls as calls:
            calls.check(function(native, named, None, 0, ctypes.byref(info)))
            array = np.empty(info.dims[:info.rank], dtype_of(info))
            calls.check(function(native, named, array.ctypes.data, array.nbytes, None))
            return array.astype(bool) if info.dtype == _c.Dtype.bool else array

    def _write(self, function: Any, name: str, array: np.ndarray) -> None:
        self._call(function, name.encode(), array.ctypes.data, array.nbytes)


def each(calls: Any, kind: Any, function: Any, *arguments: Any, take: Callable[[Any], Any]) -> list[Any]:
    """As Owned._each(), within a call."""
    found: list[Any] = []
    while True:
        out = kind()
        status = function(*arguments, len(found), ctypes.byref(out))
        if status == _c.Status.not_found or (calls is None and status):  # lists without a context have no other failure
            return found
        if status:
            calls.check(status)
        found.append(take(out))


def copied(calls: Calls, function: Any, native: Any, name: str) -> np.ndarray:
    """An array of graft's, within a call: a copy, since the next call may overwrite it."""
    data, size, info = ctypes.c_void_p(), ctypes.c_size_t(), _c.TensorInfo()
    calls.check(function(native, name.encode(), ctypes.byref(data), ctypes.byref(size), ctypes.byref(info)))
    array = np.empty(info.dims[:info.rank], dtype_of(info))
    if array.nbytes != size.value:
        raise error_of(_c.Status.internal, "A tensor has changed its size.")
    ctypes.memmove(array.ctypes.data, data, size.value)
    return array.astype(bool) if info.dtype == _c.Dtype.bool else array


def source_of(file: bytes) -> _c.Source:
    """The bytes of a file, which graft copies."""
    source = _c.Source(kind="memory", bytes=len(file), copy=1)
    source.data = ctypes.cast(ctypes.c_char_p(file), ctypes.c_void_p)
    source._file = file  # stays as long
    return source

"""What graft raises: one class for each status, with graft's own sentence."""


class Error(Exception):
    """A call of graft that failed. `str(error)` is one sentence; `status` names what kind of failure it was."""

    status = "internal"


class InvalidArgument(Error, ValueError):
    """The caller asked for something that cannot be."""

    status = "invalid_argument"


class NotFound(Error, FileNotFoundError):
    """A named thing (file, value, device, driver) is absent."""

    status = "not_found"


class IoError(Error, OSError):
    """The operating system refused a read, write, sync or map."""

    status = "io_error"


class Corrupt(Error, ValueError):
    """A file contradicts its format or checksum."""

    status = "corrupt"


class Unsupported(Error, NotImplementedError):
    """Well-formed, but graft or this device cannot do it."""

    status = "unsupported"


class OutOfMemory(Error, MemoryError):
    """Host or device memory, or a budget, does not suffice."""

    status = "out_of_memory"


class DeviceError(Error, RuntimeError):
    """A GPU call failed."""

    status = "device_error"


class DeviceLost(DeviceError):
    """The GPU is gone; only a new context can go on."""

    status = "device_lost"


class Timeout(Error, TimeoutError):
    """A bounded wait ran out."""

    status = "timeout"


class Cancelled(Error):
    """Stopped on request."""

    status = "cancelled"


class Internal(Error, RuntimeError):
    """A bug in graft."""

    status = "internal"


# In the order of graft_status, whose first stands for success.
_CLASSES = (Error, InvalidArgument, NotFound, IoError, Corrupt, Unsupported, OutOfMemory, DeviceError, DeviceLost,
            Timeout, Cancelled, Internal)


def error_of(code: int, message: str) -> Error:
    """The exception for a graft_status; one that this version does not know is an Error."""
    return (_CLASSES[code] if 0 < code < len(_CLASSES) else Error)(message)

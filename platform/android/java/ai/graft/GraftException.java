package ai.graft;

import androidx.annotation.NonNull;

/** A call that failed: its status, and as message graft's full sentence about it. Each status has a subclass. */
public class GraftException extends RuntimeException {
  /** The caller asked for something that cannot be. */
  public static final class InvalidArgument extends GraftException {
    InvalidArgument(String message) { super(Status.INVALID_ARGUMENT, message); }
  }

  /** A named thing (file, value, device, driver) is absent. */
  public static final class NotFound extends GraftException {
    NotFound(String message) { super(Status.NOT_FOUND, message); }
  }

  /** The operating system refused a read, write, sync or map. */
  public static final class Io extends GraftException {
    Io(String message) { super(Status.IO_ERROR, message); }
  }

  /** A file contradicts its format or checksum. */
  public static final class Corrupt extends GraftException {
    Corrupt(String message) { super(Status.CORRUPT, message); }
  }

  /** Well-formed, but graft or this device cannot do it. */
  public static final class Unsupported extends GraftException {
    Unsupported(String message) { super(Status.UNSUPPORTED, message); }
  }

  /** Host or device memory, or a budget, does not suffice. */
  public static final class OutOfMemory extends GraftException {
    OutOfMemory(String message) { super(Status.OUT_OF_MEMORY, message); }
  }

  /** A GPU call failed. */
  public static final class DeviceError extends GraftException {
    DeviceError(String message) { super(Status.DEVICE_ERROR, message); }
  }

  /** The GPU is gone; only a new context can go on. */
  public static final class DeviceLost extends GraftException {
    DeviceLost(String message) { super(Status.DEVICE_LOST, message); }
  }

  /** A bounded wait ran out. */
  public static final class Timeout extends GraftException {
    Timeout(String message) { super(Status.TIMEOUT, message); }
  }

  /** Stopped on request. */
  public static final class Cancelled extends GraftException {
    Cancelled(String message) { super(Status.CANCELLED, message); }
  }

  /** A bug in graft. */
  public static final class Internal extends GraftException {
    Internal(String message) { super(Status.INTERNAL, message); }
  }

  private static final long serialVersionUID = 1;
  private final Status status;

  private GraftException(Status status, String message) {
    super(message);
    this.status = status;
  }

  @NonNull
  public Status status() {
    return status;
  }

  /** Called from JNI. A number that this class does not know counts as a bug in graft. */
  static GraftException of(int status, String message) {
    Status[] all = Status.values();
    switch (status > 0 && status < all.length ? all[status] : Status.INTERNAL) {
      case INVALID_ARGUMENT: return new InvalidArgument(message);
      case NOT_FOUND: return new NotFound(message);
      case IO_ERROR: return new Io(message);
      case CORRUPT: return new Corrupt(message);
      case UNSUPPORTED: return new Unsupported(message);
      case OUT_OF_MEMORY: return new OutOfMemory(message);
      case DEVICE_ERROR: return new DeviceError(message);
      case DEVICE_LOST: return new DeviceLost(message);
      case TIMEOUT: return new Timeout(message);
      case CANCELLED: return new Cancelled(message);
      default: return new Internal(message);
    }
  }
}

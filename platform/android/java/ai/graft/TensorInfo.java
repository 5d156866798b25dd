package ai.graft;

import androidx.annotation.NonNull;
import java.util.Arrays;

/** The name, element type and shape of a tensor; row-major, as the source model has it. */
public final class TensorInfo {
  /** In the order of graft_dtype; those behind BOOL32 are of samples that {@link InputFormat} says. */
  public enum Type {
    F32, I32, BOOL32, U8, I8, F16, BF16;

    int bytes() {
      return this == U8 || this == I8 ? 1 : this == F16 || this == BF16 ? 2 : 4;
    }
  }

  @NonNull public final String name;
  @NonNull public final Type type;
  /** -1 for a named dimension that is not bound. */
  @NonNull public final long[] shape;
  /** What each -1 stands for, as in "batch"; "" for numbers, and empty where all are bound. */
  @NonNull public final String[] dimensions;

  /** Called from JNI. */
  TensorInfo(String name, int type, long[] shape, String[] dimensions) {
    this.name = name;
    this.type = Type.values()[type];
    this.shape = shape;
    this.dimensions = dimensions;
  }

  /** Bytes of it where every dimension is bound. */
  long bytes() {
    long bytes = type.bytes();
    for (long dim : shape) bytes *= dim;
    return bytes;
  }

  @Override
  public String toString() {
    return name + " " + type + " " + Arrays.toString(shape);
  }
}

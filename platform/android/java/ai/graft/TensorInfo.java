package ai.graft;

import androidx.annotation.NonNull;
import java.util.Arrays;
import java.util.function.IntFunction;

/** The name, element type and shape of a tensor; row-major, as the source model has it. */
public final class TensorInfo {
  @NonNull public final String name;
  @NonNull public final Dtype dtype;
  /** -1 for a named dimension that is not bound. */
  @NonNull public final long[] shape;
  /** What each -1 stands for, as in "batch"; "" for numbers, and empty where all are bound. */
  @NonNull public final String[] dimensions;

  TensorInfo(String name, Dtype dtype, long[] shape, String[] dimensions) {
    this.name = name;
    this.dtype = dtype;
    this.shape = shape;
    this.dimensions = dimensions;
  }

  TensorInfo(In in) {
    this(in.text(), Dtype.values()[in.count()], in.longs(), new String[0]);
  }

  /** Of a value whose memory and info native code gave. */
  static TensorInfo behind(byte[] packed) {
    In in = new In(packed);
    in.number();
    in.number();
    return new TensorInfo(in);
  }

  /** The same with names of its dimensions. */
  TensorInfo named(IntFunction<String> at) {
    String[] names = new String[shape.length];
    for (int axis = 0; axis < names.length; axis++) names[axis] = at.apply(axis);
    return new TensorInfo(name, dtype, shape, names);
  }

  /** Where every dimension is bound. */
  long elements() {
    long elements = 1;
    for (long dim : shape) elements *= dim;
    return elements;
  }

  long bytes() {
    return elements() * (dtype == Dtype.U8 || dtype == Dtype.I8 ? 1 : dtype == Dtype.F16 || dtype == Dtype.BF16 ? 2 : 4);
  }

  @Override
  public String toString() {
    return name + " " + dtype + " " + Arrays.toString(shape);
  }
}

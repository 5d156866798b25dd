package ai.graft;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.Function;

/** Results on their way from native code: what `Out` of jni/packed.h wrote. */
final class In {
  private final ByteBuffer data;

  In(byte[] packed) {
    data = ByteBuffer.wrap(packed).order(ByteOrder.nativeOrder());
  }

  /** Null for null. */
  static <T> T one(byte[] packed, Function<In, T> make) {
    return packed == null ? null : make.apply(new In(packed));
  }

  static <T> List<T> all(byte[] packed, Function<In, T> make) {
    return new In(packed).list(make);
  }

  boolean hasMore() {
    return data.hasRemaining();
  }

  long number() {
    return data.getLong();
  }

  int count() {
    return (int) number();
  }

  boolean flag() {
    return number() != 0;
  }

  double real() {
    return data.getDouble();
  }

  String text() {
    int bytes = count();
    if (bytes < 0) return null;
    String out = new String(data.array(), data.position(), bytes, StandardCharsets.UTF_8);
    return skip(bytes, out);
  }

  /** Goes on after an array of these bytes. */
  private <T> T skip(int bytes, T out) {
    data.position(data.position() + (bytes + 7) / 8 * 8);
    return out;
  }

  long[] longs() {
    int count = count();
    long[] out = new long[count];
    data.slice().order(ByteOrder.nativeOrder()).asLongBuffer().get(out);
    return skip(8 * count, out);
  }

  int[] ints() {
    int count = count();
    int[] out = new int[count];
    data.slice().order(ByteOrder.nativeOrder()).asIntBuffer().get(out);
    return skip(4 * count, out);
  }

  float[] floats() {
    int count = count();
    float[] out = new float[count];
    data.slice().order(ByteOrder.nativeOrder()).asFloatBuffer().get(out);
    return skip(4 * count, out);
  }

  double[] doubles() {
    int count = count();
    double[] out = new double[count];
    data.slice().order(ByteOrder.nativeOrder()).asDoubleBuffer().get(out);
    return skip(8 * count, out);
  }

  <T> List<T> list(Function<In, T> make) {
    List<T> out = new ArrayList<>();
    for (int left = count(); left > 0; left--) out.add(make.apply(this));
    return Collections.unmodifiableList(out);
  }

  /** graft's own memory. */
  ByteBuffer view() {
    return Jni.view(number(), number());
  }
}

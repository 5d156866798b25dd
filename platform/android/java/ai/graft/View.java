package ai.graft;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/** Native memory as a read-only buffer. What owns the memory lives as long as the buffer or any made from it. */
final class View {
  static ByteBuffer of(Owner owner, ByteBuffer memory) {
    // All buffers derived from `memory` refer to it, so it is what becomes unreachable last.
    owner.child(memory, 1, "buffer", pointer -> {});
    return memory.asReadOnlyBuffer().order(ByteOrder.nativeOrder());
  }

  static float[] floats(ByteBuffer memory) {
    float[] out = new float[memory.remaining() / 4];
    memory.order(ByteOrder.nativeOrder()).asFloatBuffer().get(out);
    return out;
  }

  static int[] ints(ByteBuffer memory) {
    int[] out = new int[memory.remaining() / 4];
    memory.order(ByteOrder.nativeOrder()).asIntBuffer().get(out);
    return out;
  }

  static byte[] bytes(ByteBuffer memory) {
    byte[] out = new byte[memory.remaining()];
    memory.get(out);
    return out;
  }

  /** Memory that native code fills. */
  static ByteBuffer room(long bytes) {
    if (bytes <= Integer.MAX_VALUE) return ByteBuffer.allocateDirect((int) bytes);
    throw new GraftException.Unsupported("The value takes " + bytes + " bytes, more than a ByteBuffer can hold.");
  }

  interface Reader {
    /** A packed TensorInfo; with room also its numbers. */
    byte[] into(ByteBuffer room);
  }

  /** A float[] or an int[]. */
  static Object read(Reader reader) {
    TensorInfo info = In.one(reader.into(null), TensorInfo::new);
    ByteBuffer room = room(info.bytes());
    reader.into(room);
    return info.dtype == Dtype.F32 ? (Object) floats(room) : ints(room);
  }

  /** A copy of the same in memory of its own. */
  static ByteBuffer copy(ByteBuffer memory) {
    ByteBuffer out = ByteBuffer.allocateDirect(memory.remaining()).order(ByteOrder.nativeOrder());
    out.put(memory).flip();
    return out;
  }

  private View() {}
}

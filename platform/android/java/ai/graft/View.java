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

  /** A copy of the same in memory of its own. */
  static ByteBuffer copy(ByteBuffer memory) {
    ByteBuffer out = ByteBuffer.allocateDirect(memory.remaining()).order(ByteOrder.nativeOrder());
    out.put(memory).flip();
    return out;
  }

  private View() {}
}

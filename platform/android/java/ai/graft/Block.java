package ai.graft;

import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.IntBuffer;

/** What JNI reads from: a float[], an int[], or the bytes of a direct buffer between its position and its limit. */
final class Block {
  final Object data;
  final long offset;
  final long bytes;
  /** Null: bytes, of any type. */
  final Dtype type;

  private Block(Object data, long offset, long bytes, Dtype type) {
    this.data = data;
    this.offset = offset;
    this.bytes = bytes;
    this.type = type;
  }

  static Block of(Object data, String name) {
    if (data == null) throw new NullPointerException("\"" + name + "\" is null.");
    if (data instanceof float[]) return new Block(data, 0, 4L * ((float[]) data).length, Dtype.F32);
    if (data instanceof int[]) return new Block(data, 0, 4L * ((int[]) data).length, Dtype.I32);
    if (data instanceof ByteBuffer) return of((Buffer) data, ((ByteBuffer) data).order(), 1, null, name);
    if (data instanceof FloatBuffer) {
      return of((Buffer) data, ((FloatBuffer) data).order(), 4, Dtype.F32, name);
    }
    if (data instanceof IntBuffer) return of((Buffer) data, ((IntBuffer) data).order(), 4, Dtype.I32, name);
    throw refused("\"" + name + "\" is of " + data.getClass().getName()
        + "; it must be a float[], an int[], a ByteBuffer, a FloatBuffer or an IntBuffer.");
  }

  /** A file's bytes, which have no order: those of a direct buffer from position to limit. */
  static Block ofBytes(ByteBuffer file) {
    return of(file.duplicate().order(ByteOrder.nativeOrder()), "memory");
  }

  /** The same of a copy. */
  static Block ofBytes(byte[] bytes) {
    ByteBuffer copy = ByteBuffer.allocateDirect(bytes.length);
    copy.put(bytes).flip();
    return ofBytes(copy);
  }

  private static Block of(Buffer buffer, ByteOrder order, int size, Dtype type, String name) {
    if (!buffer.isDirect()) throw refused("The buffer for \"" + name + "\" is not direct; give its array instead.");
    // A new ByteBuffer is big-endian: numbers put into it would arrive as others.
    if (order != ByteOrder.nativeOrder()) {
      throw refused("The buffer for \"" + name + "\" is " + order + "; give it order(ByteOrder.nativeOrder()) first.");
    }
    return new Block(buffer, (long) size * buffer.position(), (long) size * buffer.remaining(), type);
  }

  /** Throws where this is not what `count` times `info` takes. */
  void check(TensorInfo info, long count) {
    Dtype taken = info.dtype == Dtype.BOOL32 ? Dtype.I32 : info.dtype;
    if (type != null && type != taken) {
      String takes = taken == Dtype.F32 ? "floats" : taken == Dtype.I32 ? "ints" : "bytes of " + taken;
      throw refused("\"" + info.name + "\" takes " + takes + "; "
          + (type == Dtype.F32 ? "floats" : "ints") + " were given.");
    }
    long wanted = info.bytes() * count;
    if (bytes == wanted) return;
    throw refused("\"" + info.name + "\" takes " + wanted + " bytes for " + count + " samples; " + bytes + " were given.");
  }

  /** The same bytes. */
  void copyTo(ByteBuffer out) {
    if (data instanceof float[]) out.asFloatBuffer().put((float[]) data);
    else if (data instanceof int[]) out.asIntBuffer().put((int[]) data);
    else if (data instanceof FloatBuffer) out.asFloatBuffer().put(((FloatBuffer) data).duplicate());
    else if (data instanceof IntBuffer) out.asIntBuffer().put(((IntBuffer) data).duplicate());
    else out.duplicate().put(((ByteBuffer) data).duplicate());
  }

  private static GraftException refused(String sentence) {
    return new GraftException.InvalidArgument(sentence);
  }
}

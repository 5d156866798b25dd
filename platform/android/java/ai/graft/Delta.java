package ai.graft;

import androidx.annotation.NonNull;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.util.List;

/**
 * What training changed, of one client or averaged over several: what a federated round sends. {@link Model#deltaFrom} and
 * {@link Context#loadDelta} make it. Threads and closing: see {@link Context}.
 */
public final class Delta extends Handle implements Closeable {
  /** Inside the gate. */
  Delta(Owner context, long pointer) {
    own = context.child(this, pointer, "delta", Jni::deltaDestroy);
  }

  @NonNull
  public DeltaInfo info() {
    return In.one(own.call(Jni::deltaDescribe), DeltaInfo::new);
  }

  /** In the order of names. */
  @NonNull
  public List<TensorInfo> tensors() {
    return own.call(p -> Lists.of(In.one(Jni.deltaDescribe(p), DeltaInfo::new).tensors,
        i -> In.one(Jni.deltaTensor(p, i), TensorInfo::new)));
  }

  /** Decoded numbers of a tensor, row-major. */
  @NonNull
  public float[] numbers(@NonNull String name) {
    long elements = 0;
    for (TensorInfo info : tensors()) {
      if (info.name.equals(name)) elements = info.elements();
    }
    ByteBuffer room = View.room(4 * elements);
    own.run(p -> Jni.deltaNumbers(p, name, room));
    return View.floats(room);
  }

  /** The integers of a tensor of FIXED, in place: the app adds its masks to them, modulo 2^32, before it sends them. */
  @NonNull
  public IntBuffer integers(@NonNull String name) {
    return own.call(p -> {
      ByteBuffer memory = new In(Jni.deltaIntegers(p, name)).view();
      View.of(own, memory);  // the delta stays as long as the buffer
      return memory.order(ByteOrder.nativeOrder()).asIntBuffer();
    });
  }

  /** Writes a file, atomically. */
  public void save(@NonNull String path) {
    own.run(p -> Jni.deltaSave(p, path));
  }

  /** The file's bytes, to send. */
  @NonNull
  public byte[] bytes() {
    return own.call(p -> View.bytes(new In(Jni.deltaBytes(p)).view()));
  }

  /** Adds it, times `rate`, to the model, which must have no sessions, generators or trainers. */
  public void applyTo(@NonNull Model model, double rate) {
    own.run(p -> {
      long to = model.own.given(own);
      model.needNoChildren("weights");
      Jni.deltaApply(to, p, rate);
    });
  }

  @Override
  public void close() {
    own.close();
  }
}

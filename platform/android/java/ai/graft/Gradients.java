package ai.graft;

import androidx.annotation.NonNull;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Gradients of any number of samples: what {@link Model#gradients} computed. */
public final class Gradients extends Handle implements Closeable {
  public static final class Options extends Shown {
    /** An output or any value. */
    @NonNull public String of = "";
    /** Inputs, parameters or any values. */
    @NonNull public final List<String> wrt = new ArrayList<>();
    /** Every named dimension; that of the batch is the number of samples in all. */
    @NonNull public final Map<String, Long> bindings = new LinkedHashMap<>();
    /** Bytes of device memory; 0: no limit. */
    public long budget;
    /** Samples on the device at once; 0: as many as fit. */
    public int microBatch;
    /** Gradients of parameters for each sample, along a new first axis, not summed. */
    public boolean perSample;
    /** As a training step computes it, dropout at work. */
    public boolean trainMode;
  }

  Gradients(Owner model, long pointer) {
    own = model.child(this, pointer, "gradient", Jni::gradientsDestroy);
  }

  /** graft's own memory, read-only; it may be read after this was closed. */
  @NonNull
  public ByteBuffer get(@NonNull String wrt) {
    return own.call(p -> View.of(own, Jni.gradientsGet(p, wrt)));
  }

  /** A copy of the same. */
  @NonNull
  public float[] floats(@NonNull String wrt) {
    return own.call(p -> View.floats(Jni.gradientsGet(p, wrt)));
  }

  @NonNull
  public TensorInfo info(@NonNull String wrt) {
    return own.call(p -> Jni.gradientsInfo(p, wrt));
  }

  @Override
  public void close() {
    own.close();
  }
}

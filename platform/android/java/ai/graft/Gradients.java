package ai.graft;

import androidx.annotation.NonNull;
import java.io.Closeable;
import java.nio.ByteBuffer;

/** Gradients of any number of samples: what {@link Model#gradients} computed. */
public final class Gradients extends Handle implements Closeable {
  Gradients(Owner model, long pointer) {
    own = model.child(this, pointer, "gradient", Jni::gradientsDestroy);
  }

  /** graft's own memory, read-only; it may be read after this was closed. */
  @NonNull
  public ByteBuffer get(@NonNull String wrt) {
    return own.call(p -> View.of(own, new In(Jni.gradientsGet(p, wrt)).view()));
  }

  /** A copy of the same. */
  @NonNull
  public float[] floats(@NonNull String wrt) {
    return own.call(p -> View.floats(new In(Jni.gradientsGet(p, wrt)).view()));
  }

  @NonNull
  public TensorInfo info(@NonNull String wrt) {
    return own.call(p -> TensorInfo.behind(Jni.gradientsGet(p, wrt)));
  }

  @Override
  public void close() {
    own.close();
  }
}

package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.util.List;

/** Batches of a data set, shuffled and read ahead; {@link DataSet#loader} makes it. Threads and closing: see {@link Context}. */
public final class Loader extends Handle implements Closeable {
  /** One batch. */
  public static final class Batch extends Shown {
    public final long samples;
    /** From 0. */
    public final long epoch;
    /** The next batch is of another epoch. */
    public final boolean lastOfEpoch;
    /** Copies of the contents of each field, one sample after another, in native order. */
    @NonNull public final List<ByteBuffer> fields;

    Batch(In in) {
      samples = in.number();
      epoch = in.number();
      lastOfEpoch = in.flag();
      fields = in.list(field -> View.copy(field.view()));
    }
  }

  Loader(Owner set, long pointer) {
    own = set.child(this, pointer, "loader", Jni::loaderDestroy);
  }

  /** The next batch, to look at; null: the epochs are over. */
  @Nullable
  public Batch next() {
    return own.call(p -> In.one(Jni.loaderNext(p, own.parentPointer()), Batch::new));
  }

  @Override
  public void close() {
    own.close();
  }
}

package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/** Batches of a data set, shuffled and read ahead; {@link DataSet#loader} makes it. Threads and closing: see {@link Context}. */
public final class Loader extends Handle implements Closeable {
  public static final class Options extends Shown {
    /** Samples; 0: 32. */
    public long batch = 32;
    /** Of the order. */
    public long seed;
    /** Not shuffled. */
    public boolean inOrder;
    /** Leave out a last batch that is not full. */
    public boolean dropLast;
    /** 0: without end. */
    public long epochs;
    /** Samples that are shuffled together if the data set does not know its size. */
    public long shuffleBuffer = 1024;
    /** Bytes for batches and buffers; OutOfMemory where it does not suffice; 0: no limit. */
    public long memoryLimit;
    /** That read samples where each is a file; 0: as many as cores, 8 at most. */
    public int readThreads;
  }

  /** One batch. */
  public static final class Batch extends Shown {
    public final long samples;
    /** From 0. */
    public final long epoch;
    /** The next batch is of another epoch. */
    public final boolean lastOfEpoch;
    /** Copies of the contents of each field, one sample after another, in native order. */
    @NonNull public final List<ByteBuffer> fields = new ArrayList<>();

    Batch(Record record, ByteBuffer[] contents) {
      samples = record.number();
      epoch = record.number();
      lastOfEpoch = record.flag();
      for (ByteBuffer content : contents) fields.add(View.copy(content));
    }
  }

  Loader(Owner set, long pointer) {
    own = set.child(this, pointer, "loader", Jni::loaderDestroy);
  }

  /** The next batch, to look at; null: the epochs are over. */
  @Nullable
  public Batch next() {
    return own.call(p -> {
      Record record = Jni.loaderNext(p);
      return record == null ? null : new Batch(record, Jni.loaderFields(p));
    });
  }

  @Override
  public void close() {
    own.close();
  }
}

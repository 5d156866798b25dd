package ai.graft;

import androidx.annotation.NonNull;
import java.io.Closeable;
import java.util.ArrayList;
import java.util.List;

/**
 * Adds up, over texts, the squares of what each column of each matrix is multiplied with; {@link Model#importance} makes it. Threads
 * and closing: see {@link Context}.
 */
public final class Importance extends Handle implements Closeable {
  public static final class Options extends Shown {
    /** Tokens of a chunk, each of which begins anew; 0: the model's own context, at most 512. */
    public int context;
    /** Most chunks of all texts together; 0: no limit. */
    public long chunks;
    /** Of the head's matrix, too. */
    public boolean head;
    /** Special tokens that are spelled out in texts become these. */
    public boolean parseSpecial;
    /** Bytes of device memory; 0: no limit. */
    public long budget;
    /** Goes on where the device was lost. */
    public boolean recoverDevice;
  }

  /** How far it is. */
  public static final class Progress extends Shown {
    /** Tokens of a chunk. */
    public final int context;
    /** Chunks that were computed, and that were not. */
    public final long chunks;
    public final long waiting;
    /** Tokens of texts that are in no chunk. */
    public final long dropped;

    Progress(Record record) {
      context = record.count();
      chunks = record.number();
      waiting = record.number();
      dropped = record.number();
    }
  }

  /** One matrix. */
  public static final class Matrix extends Shown {
    /** Of the weight. */
    @NonNull public final String name;
    /** For each column, what it was multiplied with, squared. */
    @NonNull public final double[] sums;
    /** Over which they were added up. */
    public final long tokens;

    Matrix(Record record) {
      name = record.text();
      tokens = record.number();
      sums = record.restOfReals();
    }
  }

  Importance(Owner model, long pointer) {
    own = model.child(this, pointer, "importance", Jni::importanceDestroy);
  }

  /** Cuts a text into chunks, which wait: how many wait now. */
  public long add(@NonNull String text) {
    java.util.Objects.requireNonNull(text);
    return own.call(p -> Jni.importanceAdd(p, text));
  }

  /** The same of tokens. */
  public long add(@NonNull int[] tokens) {
    int[] copy = tokens.clone();
    return own.call(p -> Jni.importanceAddTokens(p, copy));
  }

  /** Computes one chunk: how many still wait. */
  public long step() {
    return own.call(Jni::importanceStep);
  }

  @NonNull
  public Progress progress() {
    return new Progress(own.call(Jni::importanceDescribe));
  }

  /** The sums so far, in the model's order. */
  @NonNull
  public List<Matrix> matrices() {
    List<Matrix> all = new ArrayList<>();
    for (Record record : own.call(Jni::importanceMatrices)) all.add(new Matrix(record));
    return all;
  }

  @NonNull
  public Memory memory() {
    return new Memory(own.call(Jni::importanceMemory));
  }

  @Override
  public void close() {
    own.close();
  }
}

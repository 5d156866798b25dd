package ai.graft;

import androidx.annotation.NonNull;
import java.io.Closeable;
import java.util.List;

/**
 * Adds up, over texts, the squares of what each column of each matrix is multiplied with; {@link Model#importance} makes it. Threads
 * and closing: see {@link Context}.
 */
public final class Importance extends Handle implements Closeable {
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
    return own.call(p -> Jni.importanceAddTokens(p, new Out(own).array(tokens).bytes()));
  }

  /** Computes one chunk: how many still wait. */
  public long step() {
    return own.call(Jni::importanceStep);
  }

  @NonNull
  public ImportanceInfo progress() {
    return In.one(own.call(Jni::importanceDescribe), ImportanceInfo::new);
  }

  /** The sums so far, in the model's order. */
  @NonNull
  public List<ImportanceMatrix> matrices() {
    return own.call(p -> Lists.of(Jni.importanceCount(p), i -> In.one(Jni.importanceAt(p, i), ImportanceMatrix::new)));
  }

  @NonNull
  public Memory memory() {
    return In.one(own.call(Jni::importanceMemory), Memory::new);
  }

  @Override
  public void close() {
    own.close();
  }
}

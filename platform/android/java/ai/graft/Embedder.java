package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.util.Arrays;

/** Turns texts into vectors; {@link Model#embedder} makes it. Threads and closing: see {@link Context}. */
public final class Embedder extends Handle implements Closeable {
  Embedder(Owner model, long pointer) {
    own = model.child(this, pointer, "embedder", Jni::embedderDestroy);
  }

  /** Numbers of a vector. */
  public int width() {
    return (int) (long) own.call(Jni::embedderWidth);
  }

  /** The most tokens of a text. */
  public int length() {
    return (int) (long) own.call(Jni::embedderLength);
  }

  /** A vector for each text, which depends on no other text. */
  @NonNull
  public float[][] embed(@NonNull String... texts) {
    return embed(texts, null);
  }

  /** tokens, unless null, has a place for each text: how many tokens it had before it was cut. */
  @NonNull
  public float[][] embed(@NonNull String[] texts, @Nullable int[] tokens) {
    if (tokens != null && tokens.length < texts.length) {
      throw new GraftException.InvalidArgument("There are places for the tokens of " + tokens.length + " texts alone.");
    }
    return own.call(p -> {
      In in = new In(Jni.embed(p, new Out(own).texts(Arrays.asList(texts)).bytes()));
      float[][] vectors = rows(in.floats(), texts.length);
      int[] counts = in.ints();
      if (tokens != null) System.arraycopy(counts, 0, tokens, 0, counts.length);
      return vectors;
    });
  }

  /** The same of tokens, as {@link Tokenizer#encode} gives them. */
  @NonNull
  public float[][] embed(@NonNull int[][] texts) {
    return own.call(p -> {
      Out out = new Out(own).number(texts.length);
      for (int[] text : texts) out.array(java.util.Objects.requireNonNull(text));
      return rows(new In(Jni.embedTokens(p, out.bytes())).floats(), texts.length);
    });
  }

  private static float[][] rows(float[] all, int count) {
    float[][] rows = new float[count][];
    int width = count == 0 ? 0 : all.length / count;
    for (int i = 0; i < count; i++) rows[i] = Arrays.copyOfRange(all, i * width, (i + 1) * width);
    return rows;
  }

  @NonNull
  public Memory memory() {
    return In.one(own.call(Jni::embedderMemory), Memory::new);
  }

  @Override
  public void close() {
    own.close();
  }
}

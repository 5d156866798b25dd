package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;

/** Turns texts into vectors; {@link Model#embedder} makes it. Threads and closing: see {@link Context}. */
public final class Embedder extends Handle implements Closeable {
  public static final class Options extends Shown {
    @NonNull public Pooling pooling = Pooling.DEFAULT;
    /** Vectors are brought to length 1; otherwise only where the model's file says so. */
    public boolean normalize;
    /** Texts beyond `length` are cut at their end; otherwise they are refused. */
    public boolean cut;
    /** Most tokens of a text; 0: the model's own context, at most 512. */
    public int length;
    /** Texts on the device at once; 0: 8. */
    public int batch;
    /** Name of the value that is pooled; null: the last hidden state. */
    @Nullable public String of;
    @NonNull public Precision precision = Precision.F32;
    /** Bytes of device memory; 0: no limit. */
    public long budget;
    /** Goes on where the device was lost. */
    public boolean recoverDevice;
  }

  Embedder(Owner model, long pointer) {
    own = model.child(this, pointer, "embedder", Jni::embedderDestroy);
  }

  /** Numbers of a vector. */
  public int width() {
    return own.call(Jni::embedderWidth);
  }

  /** The most tokens of a text. */
  public int length() {
    return own.call(Jni::embedderLength);
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
    String[] given = texts.clone();
    for (String text : given) java.util.Objects.requireNonNull(text);
    return own.call(p -> Jni.embed(p, given, tokens));
  }

  /** The same of tokens, as {@link Tokenizer#encode} gives them. */
  @NonNull
  public float[][] embed(@NonNull int[][] texts) {
    int[][] given = texts.clone();
    for (int[] text : given) java.util.Objects.requireNonNull(text);
    return own.call(p -> Jni.embedTokens(p, given));
  }

  @NonNull
  public Memory memory() {
    return new Memory(own.call(Jni::embedderMemory));
  }

  @Override
  public void close() {
    own.close();
  }
}

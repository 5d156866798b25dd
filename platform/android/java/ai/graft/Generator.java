package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.util.ArrayList;
import java.util.List;

/** Writes text with a language model. Threads and closing: see {@link Context}. */
public final class Generator implements Closeable {
  public static final class Options {
    /** Tokens of prompt and answer together; 0: the model's own, at most 2048. */
    public int context;
    /** Tokens of a prompt taken at a time; 0: 64. */
    public int prefill;
    /** Bytes of device memory; 0: no limit. */
    public long budget;
    @NonNull public Precision precision = Precision.F32;
    /** Where the device is lost it is opened anew, and a text goes on to the same bits. */
    public boolean recoverDevice;
  }

  /** How one text is drawn. */
  public static final class Sampling {
    public int maxTokens = 256;
    /** 0: always the most probable token. */
    public double temperature;
    /** Draw from so many of the most probable tokens; 0: all. */
    public int topK;
    /** Draw from the most probable tokens that together reach this. */
    public double topP = 1;
    /** Draw from tokens at least this many times as probable as the first. */
    public double minP;
    public double repetitionPenalty = 1;
    public long seed;
    /** The text ends before any of these. */
    @NonNull public final List<String> stop = new ArrayList<>();
  }

  /** Gets pieces of the text as they become certain, on the thread that generates. */
  public interface Listener {
    /** False ends the text. Must not call graft with this context. */
    boolean onText(@NonNull String piece);
  }

  /** Why a text ended; in the order of graft_stop_reason. */
  public enum Reason { END_OF_TEXT, MAX_TOKENS, STOP, CONTEXT_FULL, LISTENER }

  /** What a call generated. */
  public static final class Generated {
    /** "" where the model has no tokenizer. */
    @NonNull public final String text;
    /** Without the one that ended the text. */
    @NonNull public final int[] tokens;
    @NonNull public final Reason reason;
    public final int promptTokens;
    /** Of the prompt, that the call before had computed. */
    public final int cachedTokens;
    /** Milliseconds for the other tokens of the prompt, and for what was generated. */
    public final double promptMs;
    public final double generatedMs;

    /** Called from JNI. */
    Generated(String text, int[] tokens, int reason, int promptTokens, int cachedTokens, double promptMs,
        double generatedMs) {
      this.text = text;
      this.tokens = tokens;
      this.reason = Reason.values()[reason];
      this.promptTokens = promptTokens;
      this.cachedTokens = cachedTokens;
      this.promptMs = promptMs;
      this.generatedMs = generatedMs;
    }
  }

  private final Owner own;

  Generator(Owner model, long pointer) {
    own = model.child(this, pointer, "generator", Jni::generatorDestroy);
  }

  @NonNull
  public String generate(@NonNull String prompt) {
    return generate(prompt, new Sampling(), null);
  }

  /** What the model says after the prompt. A prompt that begins as the one before costs its new part only. */
  @NonNull
  public String generate(@NonNull String prompt, @NonNull Sampling sampling, @Nullable Listener listener) {
    Callbacks callbacks = Callbacks.of(own.gate, listener);
    return own.call(p -> {
      Jni.generate(p, prompt, sampling, Names.of(sampling.stop), callbacks);
      return Jni.generated(p).text;
    });
  }

  /** The same after a prompt of tokens, as {@link Tokenizer#encode} and {@link Tokenizer#chat} give them. */
  @NonNull
  public Generated generate(@NonNull int[] prompt, @NonNull Sampling sampling, @Nullable Listener listener) {
    Callbacks callbacks = Callbacks.of(own.gate, listener);
    int[] tokens = prompt.clone();
    return own.call(p -> {
      Jni.generateTokens(p, tokens, sampling, Names.of(sampling.stop), callbacks);
      return Jni.generated(p);
    });
  }

  /** What the last call gave: its tokens, why it ended, what it cost. */
  @NonNull
  public Generated last() {
    return own.call(Jni::generated);
  }

  @NonNull
  public Memory memory() {
    return new Memory(own.call(Jni::generatorMemory));
  }

  /** Swaps the adapters for those of a file; null: writes as without any. */
  public void swapAdapters(@Nullable String path) {
    own.run(p -> Jni.generatorSwapAdapters(p, path));
  }

  @Override
  public void close() {
    own.close();
  }
}

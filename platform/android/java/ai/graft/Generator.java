package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.nio.FloatBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Writes text with a language model. Threads and closing: see {@link Context}. */
public final class Generator extends Handle implements Closeable {
  public static final class Options extends Shown {
    /** Tokens of prompt and answer together; 0: the model's own, at most 2048. */
    public int context;
    /** Tokens of a prompt taken at a time; 0: 64. */
    public int prefill;
    /** Bytes of device memory; 0: no limit. */
    public long budget;
    @NonNull public Precision precision = Precision.F32;
    /** Where the device is lost it is opened anew, and a text goes on to the same bits. */
    public boolean recoverDevice;
    /** Tokens that are guessed from what the text says before, and verified in one run: the same text; 0: none. */
    public int promptLookup;
    /** How keys and values of earlier tokens are kept: halves in half of the memory, Q8_0 in about a quarter. */
    @NonNull public CacheFormat cache = CacheFormat.F32;
    /** Texts that are written at once, as {@link Generator#submit} takes them; 0: one after the other. */
    public int sequences;
  }

  /** In the order of graft_cache_format. */
  public enum CacheFormat { F32, F16, BF16, Q8_0 }

  /** How one text is drawn. */
  public static final class Sampling extends Shown {
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
    /** What is added to tokens' scores before one is chosen; negative infinity: never this token. */
    @NonNull public final Map<Integer, Float> logitBias = new LinkedHashMap<>();
    /** {@link Generated#logProbabilities} are told, and with mostProbable those of so many tokens beside each. */
    public boolean logProbabilities;
    public int mostProbable;
    /** What the text has to follow, one of the two at most: rules as llama.cpp has them (GBNF), or a JSON schema. */
    @Nullable public String grammar;
    @Nullable public String jsonSchema;
  }

  /** Gets each token as it is chosen, before its text, on the thread that generates. */
  public interface TokenListener {
    /**
     * scores: what the model gave for its place, before temperature and penalties, until this returns. False makes it
     * the last. Must not call graft with this context.
     */
    boolean onToken(int token, @NonNull FloatBuffer scores);
  }

  /** How probable a model finds a token: the natural logarithm, before any bias, penalty and temperature. */
  public static final class Probability extends Shown {
    public final int token;
    public final float logProbability;

    Probability(int token, float logProbability) {
      this.token = token;
      this.logProbability = logProbability;
    }
  }

  /** One of several texts that is done. */
  public static final class Finished extends Shown {
    /** What {@link Generator#submit} gave. */
    public final long id;
    /** Null where it failed. */
    @Nullable public final Generated text;
    /** The text's own: of its grammar, or of its scores. */
    @Nullable public final GraftException failure;

    Finished(long id, Generated text, GraftException failure) {
      this.id = id;
      this.text = text;
      this.failure = failure;
    }
  }

  /** Gets pieces of the text as they become certain, on the thread that generates. */
  public interface Listener {
    /** False ends the text. Must not call graft with this context. */
    boolean onText(@NonNull String piece);
  }

  /** Why a text ended; in the order of graft_stop_reason. */
  public enum Reason { END_OF_TEXT, MAX_TOKENS, STOP, CONTEXT_FULL, LISTENER }

  /** What a call generated. */
  public static final class Generated extends Shown {
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
    /** From the call to its first token. */
    public final double firstTokenMs;
    /** Guessed by prompt lookup, and of these what the model said as well. */
    public final int draftedTokens;
    public final int rightDrafts;
    /** One for each token; null unless asked for. */
    @Nullable public final float[] logProbabilities;
    /** For each token the most probable ones in its place, the most probable first; as many as were asked for. */
    @NonNull public final List<List<Probability>> mostProbable = new ArrayList<>();

    /** Called from JNI. */
    Generated(Record record, String text, int[] tokens, float[] logProbabilities, int[] most, float[] logs) {
      this.text = text;
      this.tokens = tokens;
      this.logProbabilities = logProbabilities;
      record.number();
      reason = Reason.values()[record.count()];
      promptTokens = record.count();
      cachedTokens = record.count();
      draftedTokens = record.count();
      rightDrafts = record.count();
      int beside = record.count();
      promptMs = record.real();
      generatedMs = record.real();
      firstTokenMs = record.real();
      for (int i = 0; i < most.length; i++) {
        if (i % beside == 0) mostProbable.add(new ArrayList<>());
        mostProbable.get(i / beside).add(new Probability(most[i], logs[i]));
      }
    }
  }

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
    return generate(prompt, sampling, listener, null).text;
  }

  /** The same, with a listener to tokens, and all that is known of the text. */
  @NonNull
  public Generated generate(
      @NonNull String prompt, @NonNull Sampling sampling, @Nullable Listener listener, @Nullable TokenListener tokens) {
    Callbacks callbacks = Callbacks.of(own.gate, listener, tokens);
    return own.call(p -> {
      Jni.generate(p, prompt, sampling, Lists.of(sampling), callbacks, tokens != null);
      return Jni.generated(p);
    });
  }

  /** The same after a prompt of tokens, as {@link Tokenizer#encode} and {@link Tokenizer#chat} give them. */
  @NonNull
  public Generated generate(@NonNull int[] prompt, @NonNull Sampling sampling, @Nullable Listener listener) {
    return generate(prompt, sampling, listener, null);
  }

  @NonNull
  public Generated generate(
      @NonNull int[] prompt, @NonNull Sampling sampling, @Nullable Listener listener, @Nullable TokenListener tokens) {
    Callbacks callbacks = Callbacks.of(own.gate, listener, tokens);
    int[] ids = prompt.clone();
    return own.call(p -> {
      Jni.generateTokens(p, ids, sampling, Lists.of(sampling), callbacks, tokens != null);
      return Jni.generated(p);
    });
  }

  /**
   * Queues what follows the prompt, with a generator that was made for several sequences, and gives the text's name. Listeners
   * are called by {@link #step} until it is finished. A text waits until a place is free; what prompts begin with in common is
   * computed once, and each text is what it would be alone.
   */
  public long submit(
      @NonNull String prompt, @NonNull Sampling sampling, @Nullable Listener listener, @Nullable TokenListener tokens) {
    return queued(listener, tokens,
        (p, callbacks) -> Jni.submit(p, prompt, sampling, Lists.of(sampling), callbacks, tokens != null));
  }

  /** The same after a prompt of tokens. */
  public long submit(
      @NonNull int[] prompt, @NonNull Sampling sampling, @Nullable Listener listener, @Nullable TokenListener tokens) {
    int[] ids = prompt.clone();
    return queued(listener, tokens,
        (p, callbacks) -> Jni.submitTokens(p, ids, sampling, Lists.of(sampling), callbacks, tokens != null));
  }

  private interface Queue {
    long submit(long generator, long callbacks);
  }

  private long queued(Listener listener, TokenListener tokens, Queue queue) {
    return own.call(p -> {
      long callbacks = Jni.callbacksCreate(Callbacks.of(own.gate, listener, tokens));
      long id = 0;
      try {
        id = queue.submit(p, callbacks);
      } finally {
        if (id == 0) Jni.callbacksDestroy(callbacks);
      }
      own.keepFor(id, callbacks);
      return id;
    });
  }

  /** One run on the device: some of a prompt, or a token of every text. How many are queued or under way then. */
  public long step() {
    return own.call(Jni::generatorStep);
  }

  /** The next text that is done, each once; null where there is none. */
  @Nullable
  public Finished finished() {
    long[] id = {0};
    return own.call(p -> {
      Generated text = null;
      GraftException failure = null;
      try {
        text = Jni.finished(p, id);
      } catch (GraftException e) {
        if (id[0] == 0) throw e;
        failure = e;
      }
      if (id[0] == 0) return null;
      own.done(id[0]);
      return new Finished(id[0], text, failure);
    });
  }

  /** Ends a text that is queued or under way; nothing more is heard of it. */
  public void drop(long id) {
    own.run(p -> {
      Jni.drop(p, id);
      own.done(id);
    });
  }

  /** Gives all device memory back; what a conversation has computed waits in host memory. */
  public void pause() {
    own.run(Jni::generatorPause);
  }

  /** Nothing to do where it is not paused. OutOfMemory where the device has not the memory now: ask again. */
  public void resume() {
    own.run(Jni::generatorResume);
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

  /** The same from memory: the bytes of a direct buffer from position to limit. */
  public void swapAdaptersFrom(@NonNull ByteBuffer file) {
    Block block = Block.ofBytes(file);
    own.run(p -> Jni.generatorSwapSource(p, block));
  }

  @Override
  public void close() {
    own.close();
  }
}

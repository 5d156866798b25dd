package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.nio.FloatBuffer;

/** Writes text with a language model. Threads and closing: see {@link Context}. */
public final class Generator extends Handle implements Closeable {
  /** Gets each token as it is chosen, before its text, on the thread that generates. */
  public interface TokenListener {
    /**
     * scores: what the model gave for its place, before temperature and penalties, until this returns. False makes it
     * the last. Must not call graft with this context.
     */
    boolean onToken(int token, @NonNull FloatBuffer scores);
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

  Generator(Owner model, long pointer) {
    own = model.child(this, pointer, "generator", Jni::generatorDestroy);
  }

  @NonNull
  public String generate(@NonNull String prompt) {
    return generate(prompt, new GenerateOptions(), null);
  }

  /** What the model says after the prompt. A prompt that begins as the one before costs its new part only. */
  @NonNull
  public String generate(@NonNull String prompt, @NonNull GenerateOptions options, @Nullable Listener listener) {
    return generate(prompt, options, listener, null).text;
  }

  /** The same, with a listener to tokens, and all that is known of the text. */
  @NonNull
  public Generated generate(
      @NonNull String prompt, @NonNull GenerateOptions options, @Nullable Listener listener, @Nullable TokenListener tokens) {
    return own.call(p -> Callbacks.during(Callbacks.of(own.gate, listener, tokens), callbacks -> {
      Jni.generate(p, prompt, options.packed(own), callbacks);
      return In.one(Jni.generatorLast(p), Generated::new);
    }));
  }

  /** The same after a prompt of tokens, as {@link Tokenizer#encode} and {@link Tokenizer#chat} give them. */
  @NonNull
  public Generated generate(@NonNull int[] prompt, @NonNull GenerateOptions options, @Nullable Listener listener) {
    return generate(prompt, options, listener, null);
  }

  @NonNull
  public Generated generate(
      @NonNull int[] prompt, @NonNull GenerateOptions options, @Nullable Listener listener, @Nullable TokenListener tokens) {
    return own.call(p -> Callbacks.during(Callbacks.of(own.gate, listener, tokens), callbacks -> In.one(
        Jni.generateTokens(p, new Out(own).array(prompt).bytes(), options.packed(own), callbacks), Generated::new)));
  }

  /**
   * Queues what follows the prompt, with a generator that was made for several sequences, and gives the text's name. Listeners
   * are called by {@link #step} until it is finished. A text waits until a place is free; what prompts begin with in common is
   * computed once, and each text is what it would be alone.
   */
  public long submit(
      @NonNull String prompt, @NonNull GenerateOptions options, @Nullable Listener listener, @Nullable TokenListener tokens) {
    return queued(listener, tokens,
        (p, callbacks) -> Jni.generatorSubmit(p, prompt, options.packed(own), callbacks));
  }

  /** The same after a prompt of tokens. */
  public long submit(
      @NonNull int[] prompt, @NonNull GenerateOptions options, @Nullable Listener listener, @Nullable TokenListener tokens) {
    return queued(listener, tokens, (p, callbacks) ->
        Jni.generatorSubmitTokens(p, new Out(own).array(prompt).bytes(), options.packed(own), callbacks));
  }

  private interface Queue {
    long submit(long generator, long callbacks);
  }

  private long queued(Listener listener, TokenListener tokens, Queue queue) {
    return own.call(p -> {
      long callbacks = Callbacks.create(Callbacks.of(own.gate, listener, tokens));
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
        text = In.one(Jni.generatorFinished(p, id), Generated::new);
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
      Jni.generatorDrop(p, id);
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
    return In.one(own.call(Jni::generatorLast), Generated::new);
  }

  @NonNull
  public Memory memory() {
    return In.one(own.call(Jni::generatorMemory), Memory::new);
  }

  /** Swaps the adapters for those of a file; null: writes as without any. */
  public void swapAdapters(@Nullable String path) {
    own.run(p -> Jni.generatorSwapAdapters(p, path));
  }

  /** The same from memory: the bytes of a direct buffer from position to limit. */
  public void swapAdaptersFrom(@NonNull ByteBuffer file) {
    Block block = Block.ofBytes(file);
    own.run(p -> Jni.generatorSwapAdaptersSource(p, block, 0, 0, 0));
  }

  @Override
  public void close() {
    own.close();
  }
}

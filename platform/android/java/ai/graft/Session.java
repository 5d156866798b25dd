package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.util.Map;

/** A model planned and recorded for one set of sizes. Threads and closing: see {@link Context}. */
public final class Session extends Handle implements Closeable {
  Session(Owner model, long pointer) {
    own = model.child(this, pointer, "session", Jni::sessionDestroy);
  }

  /**
   * Copies `data` to the device's side; it stays from run to run. A float[], an int[], or a direct buffer in native
   * order, of which the bytes from position to limit are taken. An index of no row, NaN and infinity are refused.
   */
  public void setInput(@NonNull String name, @NonNull Object data) {
    Block block = Block.of(data, name);
    own.run(p -> Jni.sessionSetInput(p, name, block));
  }

  /**
   * Other sizes for named dimensions, each at most that of the options. They are planned when they come for the first time;
   * memory is what the largest need. All inputs are to be set again, unless nothing changes.
   */
  public void resize(@NonNull Map<String, Long> sizes) {
    own.run(p -> Jni.sessionResize(p, new Out(own).bindings(sizes).bytes()));
  }

  /** Gives all device memory back; the next call that needs the device builds everything again, to the same bits. */
  public void pause() {
    own.run(Jni::sessionPause);
  }

  /** Builds everything again after {@link #pause}; OutOfMemory where the device has not the memory now: ask again. */
  public void resume() {
    own.run(Jni::sessionResume);
  }

  /** Blocks until the outputs are there. */
  public void run() {
    own.run(Jni::sessionRun);
  }

  /**
   * An output of the last run, or "grad:NAME": graft's own memory, read-only and in native order. The next run
   * overwrites it. It may be read after the session was closed, and keeps the session's memory until it is collected.
   */
  @NonNull
  public ByteBuffer output(@NonNull String name) {
    return own.call(p -> View.of(own, new In(Jni.sessionOutput(p, name)).view()));
  }

  /** A copy of the same. */
  @NonNull
  public float[] floats(@NonNull String name) {
    return own.call(p -> View.floats(new In(Jni.sessionOutput(p, name)).view()));
  }

  /** A copy of the same, of an integer output. */
  @NonNull
  public int[] ints(@NonNull String name) {
    return own.call(p -> View.ints(new In(Jni.sessionOutput(p, name)).view()));
  }

  /** The shape of an output, after a run. */
  @NonNull
  public TensorInfo outputInfo(@NonNull String name) {
    return own.call(p -> TensorInfo.behind(Jni.sessionOutput(p, name)));
  }

  @NonNull
  public Memory memory() {
    return In.one(own.call(Jni::sessionMemory), Memory::new);
  }

  /** Swaps the adapters of this session for those of a file; null: runs as without any. Nothing is planned anew. */
  public void swapAdapters(@Nullable String path) {
    own.run(p -> Jni.sessionSwapAdapters(p, path));
  }

  /** The same from memory: the bytes of a direct buffer from position to limit. */
  public void swapAdaptersFrom(@NonNull ByteBuffer file) {
    Block block = Block.ofBytes(file);
    own.run(p -> Jni.sessionSwapAdaptersSource(p, block, 0, 0, 0));
  }

  @Override
  public void close() {
    own.close();
  }
}

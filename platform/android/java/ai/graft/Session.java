package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A model planned and recorded for one set of sizes. Threads and closing: see {@link Context}. */
public final class Session extends Handle implements Closeable {
  public static final class Options extends Shown {
    /** Every named dimension of the inputs, as in "batch". */
    @NonNull public final Map<String, Long> bindings = new LinkedHashMap<>();
    /** Bytes of device memory; 0: no limit. OutOfMemory where the plan needs more. */
    public long budget;
    /** Differentiate this value; null: forward only. */
    @Nullable public String of;
    /** With respect to these: outputs "grad:NAME". */
    @NonNull public final List<String> wrt = new ArrayList<>();
    @NonNull public Precision precision = Precision.F32;
    /** Float inputs may hold NaN and infinity, which are an error otherwise. */
    public boolean allowNonFinite;
    /** Values on the way, by the source model's names, that are outputs as well. */
    @NonNull public final List<String> fetch = new ArrayList<>();
    /** With "of": batch norm by the batch's statistics, dropout at work; without the model's outputs. */
    public boolean trainMode;
    /** {@link #resize} will be called; the bindings are then the largest sizes. */
    public boolean resizable;
    /** One of the model's signatures: its outputs and no others; null: all outputs. */
    @Nullable public String signature;
    /** Inputs that are given as bytes or halves, by name; there are no gradients with respect to these. */
    @NonNull public final Map<String, InputFormat> formats = new LinkedHashMap<>();
    /** A call on which the device is lost opens it anew and is done there, to the same bits. */
    public boolean recoverDevice;

    @NonNull
    public Options bind(@NonNull String dimension, long size) {
      bindings.put(dimension, size);
      return this;
    }
  }

  Session(Owner model, long pointer) {
    own = model.child(this, pointer, "session", Jni::sessionDestroy);
  }

  /**
   * Copies `data` to the device's side; it stays from run to run. A float[], an int[], or a direct buffer in native
   * order, of which the bytes from position to limit are taken. An index of no row, NaN and infinity are refused.
   */
  public void setInput(@NonNull String name, @NonNull Object data) {
    Block block = Block.of(data, name);
    own.run(p -> Jni.setInput(p, name, block));
  }

  /**
   * Other sizes for named dimensions, each at most that of the options. They are planned when they come for the first time;
   * memory is what the largest need. All inputs are to be set again, unless nothing changes.
   */
  public void resize(@NonNull Map<String, Long> sizes) {
    own.run(p -> Jni.sessionResize(p, Names.of(sizes), Names.sizes(sizes)));
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
    return own.call(p -> View.of(own, Jni.sessionOutput(p, name)));
  }

  /** A copy of the same. */
  @NonNull
  public float[] floats(@NonNull String name) {
    return own.call(p -> View.floats(Jni.sessionOutput(p, name)));
  }

  /** A copy of the same, of an integer output. */
  @NonNull
  public int[] ints(@NonNull String name) {
    return own.call(p -> View.ints(Jni.sessionOutput(p, name)));
  }

  /** The shape of an output, after a run. */
  @NonNull
  public TensorInfo outputInfo(@NonNull String name) {
    return own.call(p -> Jni.sessionOutputInfo(p, name));
  }

  @NonNull
  public Memory memory() {
    return new Memory(own.call(Jni::sessionMemory));
  }

  /** Swaps the adapters of this session for those of a file; null: runs as without any. Nothing is planned anew. */
  public void swapAdapters(@Nullable String path) {
    own.run(p -> Jni.sessionSwapAdapters(p, path));
  }

  /** The same from memory: the bytes of a direct buffer from position to limit. */
  public void swapAdaptersFrom(@NonNull ByteBuffer file) {
    Block block = Block.ofBytes(file);
    own.run(p -> Jni.sessionSwapSource(p, block));
  }

  @Override
  public void close() {
    own.close();
  }
}

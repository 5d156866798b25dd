package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * A device. Any thread may use a context and what was made from it: one call runs at a time, others wait for it.
 * Contexts are independent of each other. Closing is possible in any order, at any time; what is closed throws
 * IllegalStateException, and what is forgotten is freed some time after it became unreachable.
 */
public final class Context extends Handle implements Closeable {
  /** Where graft's log goes. May be called from graft's own threads; must not call graft. */
  public interface Log {
    void log(@NonNull LogLevel level, @NonNull String message);
  }

  /** Told how far a call is, on that call's thread; it must not call graft but for {@link Context#cancel}. */
  public interface Progress {
    /** total: 0 where it is not known. */
    void at(@NonNull Stage stage, long done, long total);
  }

  /** What a call is at, and what is counted there; in the order of graft_stage. */
  public enum Stage { KERNELS, SAMPLES, PROMPT, ANSWER, PLAN }

  /** In the order of graft_log_level. */
  public enum LogLevel { DEBUG, INFO, WARNING, ERROR }

  /** What products of f32 values may become on matrix units; in the order of graft_matmul_precision. */
  public enum MatmulPrecision { HIGHEST, HIGH, MEDIUM }

  /** Of the device's work among that of all programs, where the driver has such; in the order of graft_priority. */
  public enum Priority { MEDIUM, LOW, HIGH }

  /** When a file's weights are compared with its checksums; in the order of graft_weight_check. */
  public enum WeightCheck { ON_USE, AT_ONCE, NEVER }

  /** What is not set has graft's default. */
  public static final class Options extends Shown {
    /** Index or part of the name of the Vulkan device; null: the best; "none": none, such a context forecasts. */
    @Nullable public String device;
    /** Loader or driver instead of the system's. */
    @Nullable public String vulkanLibrary;
    /** File for compiled pipelines; null: none. {@link Context#openCache} does that and more. */
    @Nullable public String pipelineCache;
    @Nullable public Log log;
    @NonNull public LogLevel logLevel = LogLevel.INFO;
    @NonNull public MatmulPrecision matmulPrecision = MatmulPrecision.HIGHEST;
    @NonNull public Priority priority = Priority.MEDIUM;
  }

  /** What a kernel did with a known answer. */
  public static final class KernelVerdict extends Shown {
    /** In the order of graft_kernel_verdict; UNTESTED: no probe uses it on this device. */
    public enum Kind { PASSED, FAILED, UNTESTED }

    @NonNull public final String kernel;
    /** What was wrong, "" where nothing was. */
    @NonNull public final String why;
    @NonNull public final Kind kind;

    KernelVerdict(Record record) {
      kernel = record.text();
      why = record.text();
      kind = Kind.values()[record.count()];
    }
  }

  public Context() {
    this(new Options());
  }

  public Context(@NonNull Options options) {
    Gate gate = new Gate();
    long callbacks = Jni.callbacksCreate(Callbacks.of(gate, options.log));
    Owner made = null;
    gate.enter();
    try {
      made = new Owner(this, null, gate, Jni.contextCreate(options, callbacks), "context", Jni::contextDestroy);
      made.keep(callbacks);
      gate.rethrow();
    } catch (GraftException e) {
      throw gate.explain(e);
    } finally {
      if (made == null) Jni.callbacksDestroy(callbacks);
      gate.leave();
    }
    own = made;
  }

  /** "0.1.0", of the native library. */
  @NonNull
  public static String version() {
    return Jni.version();
  }

  /**
   * From any thread: the call in progress on this context, or else the next one that looks, throws
   * GraftException.Cancelled before its next submission to the device. Exactly one call ends for it. Nothing has changed
   * then; the same step may be asked for again.
   */
  public void cancel() {
    own.beside(Jni::cancel);
  }

  /** Withdraws a {@link #cancel} that no call has ended for; from any thread. */
  public void uncancel() {
    own.beside(Jni::uncancel);
  }

  /**
   * How much of the device calls take, from any thread and at any time: sliceMs is how long it works before others (the
   * app's own frames) get a turn, 0.5 to 60000, or 0 for about 100; duty the share of time in which it works, 0.01 to 1.
   * No bit depends on it.
   */
  public void setPace(double sliceMs, double duty) {
    own.beside(p -> {
      if (!Jni.setPace(p, sliceMs, duty)) {
        throw new IllegalArgumentException("sliceMs is 0 or from 0.5 to 60000, duty from 0.01 to 1.");
      }
    });
  }

  /** From now on `told` is told how far calls are; null: nobody. What it throws comes out of the call, at its end. */
  public void setProgress(@Nullable Progress told) {
    own.run(p -> {
      long callbacks = Jni.callbacksCreate(Callbacks.of(own.gate, told));
      Jni.setProgress(p, callbacks);
      own.done(0);
      own.keepFor(0, callbacks);
    });
  }

  @NonNull
  public String deviceName() {
    return own.call(Jni::deviceName);
  }

  /**
   * A folder where graft remembers compiled pipelines and which kernels gave right answers on this device; once, before
   * anything is made from the context. On Android: a folder in Context.getNoBackupFilesDir().
   */
  public void openCache(@NonNull String folder) {
    openCache(folder, false);
  }

  /** With skipSelfTest, kernels are used without a test; what is remembered of them still counts. */
  public void openCache(@NonNull String folder, boolean skipSelfTest) {
    own.run(p -> Jni.openCache(p, folder, skipSelfTest));
  }

  /** Loads a .graft file. Weights are mapped, not copied: do not change the file while the model lives. */
  @NonNull
  public Model load(@NonNull String path) {
    return load(path, WeightCheck.ON_USE);
  }

  @NonNull
  public Model load(@NonNull String path, @NonNull WeightCheck check) {
    return load(path, check, false);
  }

  /** allowNonFinite: weights that hold NaN or infinity may be stored in this model and saved. */
  @NonNull
  public Model load(@NonNull String path, @NonNull WeightCheck check, boolean allowNonFinite) {
    return own.call(p -> new Model(own, Jni.modelLoad(p, path, check.ordinal(), allowNonFinite)));
  }

  /**
   * A model inside another file, such as an asset of an APK that is stored uncompressed: of an AssetFileDescriptor its
   * getParcelFileDescriptor().getFd(), getStartOffset() and getLength(). It may be closed afterwards. At an offset that is
   * a multiple of 8 (zipalign 8) weights are mapped, at others they are read into memory.
   */
  @NonNull
  public Model load(int descriptor, long offset, long bytes, @NonNull WeightCheck check) {
    if (offset < 0 || bytes < 0) throw new GraftException.InvalidArgument("An offset and a length must not be negative.");
    return own.call(
        p -> new Model(own, Jni.modelLoadDescriptor(p, null, descriptor, offset, bytes, check.ordinal(), false)));
  }

  /** A model in memory: the bytes of a direct buffer from position to limit, of which the model has a copy. */
  @NonNull
  public Model load(@NonNull ByteBuffer memory, @NonNull WeightCheck check) {
    Block block = Block.ofBytes(memory);
    return own.call(p -> new Model(own, Jni.modelLoadMemory(p, null, block, check.ordinal(), false)));
  }

  /** Runs every kernel that this device may choose against a known answer; a minute on software Vulkan. */
  @NonNull
  public List<KernelVerdict> selfTest() {
    return kernels(false);
  }

  /** What a context with a cache knows of them so far, without a test. */
  @NonNull
  public List<KernelVerdict> knownKernels() {
    return kernels(true);
  }

  private List<KernelVerdict> kernels(boolean known) {
    List<KernelVerdict> all = new ArrayList<>();
    for (Record record : own.call(p -> Jni.kernels(p, known))) all.add(new KernelVerdict(record));
    return all;
  }

  /** The folder that a run is kept in; writable: to tag, prune and branch, and no trainer may have it open. */
  @NonNull
  public SnapshotStore openStore(@NonNull String folder, boolean writable, @Nullable Cipher cipher) {
    return own.call(p -> {
      long callbacks = Jni.callbacksCreate(Callbacks.of(own.gate, cipher));
      long store = 0;
      try {
        store = Jni.storeOpen(p, folder, writable, callbacks);
      } finally {
        if (store == 0) Jni.callbacksDestroy(callbacks);
      }
      return new SnapshotStore(own, store, callbacks);
    });
  }

  @NonNull
  public Delta loadDelta(@NonNull String path) {
    return own.call(p -> new Delta(own, Jni.deltaLoad(p, path)));
  }

  /** From the bytes of a file. */
  @NonNull
  public Delta loadDelta(@NonNull byte[] file) {
    byte[] copy = file.clone();
    return own.call(p -> new Delta(own, Jni.deltaLoadBytes(p, copy)));
  }

  /** Of deltas of one base, which stay as they are. A tensor that a delta lacks did not change there. */
  @NonNull
  public Delta average(@NonNull List<Delta> deltas, @NonNull Delta.AverageOptions options) {
    return own.call(p -> new Delta(own,
        Jni.deltaAverage(p, deltas.stream().mapToLong(delta -> delta.own.given(own)).toArray(), options)));
  }

  /**
   * What rounds with noise cost a client's privacy: epsilon at `delta`, where each round takes each client with probability `share`,
   * clips its delta, and adds noise of `noise` times the norm clipped to.
   */
  public double privacy(double noise, double share, long rounds, double delta) {
    return own.call(p -> Jni.deltaPrivacy(p, noise, share, rounds, delta));
  }

  /** A data set by a SPEC, as "csv:rows.csv?label=kind"; docs/reference/data.md has them. */
  @NonNull
  public DataSet openData(@NonNull String spec) {
    return own.call(p -> new DataSet(own, Jni.dataOpen(p, spec)));
  }

  /** The same for a model, also "text:FILE", "jsonl:FILE" and "folder:DIR". */
  @NonNull
  public DataSet openData(@NonNull String spec, @NonNull DataSet.Options options) {
    return own.call(p -> new DataSet(own,
        Jni.dataOpenWith(p, spec, options, options.model == null ? 0 : options.model.own.given(own))));
  }

  /** Samples in memory: the contents of each field as for {@link Batch}, of which the set has copies. */
  @NonNull
  public DataSet dataOf(@NonNull List<DataSet.Field> fields, long samples, @NonNull Object... contents) {
    List<ByteBuffer> kept = new ArrayList<>();
    Block[] blocks = DataSet.copies(fields, samples, contents, kept);
    return own.call(p -> {
      DataSet set = new DataSet(own, Jni.dataFromMemory(p, new DataSet.Parts(fields), blocks, samples));
      set.own.keepReachable(kept);
      return set;
    });
  }

  /** Samples that the app makes; 0 of them: nobody knows how many, and they are shuffled through a buffer. */
  @NonNull
  public DataSet dataBy(@NonNull List<DataSet.Field> fields, long samples, @NonNull DataSet.Reader reader) {
    return own.call(p -> {
      long callbacks = Jni.callbacksCreate(Callbacks.of(own.gate, reader));
      DataSet set = null;
      try {
        set = new DataSet(own, Jni.dataFromReader(p, new DataSet.Parts(fields), samples, callbacks));
      } finally {
        if (set == null) Jni.callbacksDestroy(callbacks);
      }
      set.own.keep(callbacks);
      return set;
    });
  }

  @Override
  public void close() {
    own.close();
  }
}

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

  /** What a kernel did with a known answer. */
  public static final class KernelReport extends Shown {
    @NonNull public final String kernel;
    /** UNTESTED: no probe uses it on this device. */
    @NonNull public final KernelVerdict verdict;
    /** What was wrong, "" where nothing was. */
    @NonNull public final String why;

    KernelReport(In in) {
      kernel = in.text();
      verdict = KernelVerdict.values()[in.count()];
      why = in.text();
    }
  }

  public Context() {
    this(new ContextOptions());
  }

  public Context(@NonNull ContextOptions options) {
    Gate gate = new Gate();
    long callbacks = Callbacks.create(Callbacks.of(gate, options.log));
    Owner made = null;
    gate.enter();
    try {
      made = new Owner(this, null, gate, Jni.contextCreate(options.packed(null), callbacks), "context", Jni::contextDestroy);
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
      long callbacks = Callbacks.create(Callbacks.of(own.gate, told));
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
    CacheOptions options = new CacheOptions();
    options.folder = folder;
    options.skipSelfTest = skipSelfTest;
    own.run(p -> Jni.contextOpenCache(p, options.packed(own)));
  }

  /** Loads a .graft file. Weights are mapped, not copied: do not change the file while the model lives. */
  @NonNull
  public Model load(@NonNull String path) {
    return load(path, WeightCheck.ON_USE);
  }

  @NonNull
  public Model load(@NonNull String path, @NonNull WeightCheck check) {
    return load(path, checked(check));
  }

  @NonNull
  public Model load(@NonNull String path, @NonNull ModelOptions options) {
    return own.call(p -> new Model(own, Jni.modelOpen(p, path, options.packed(own))));
  }

  /**
   * A model inside another file, such as an asset of an APK that is stored uncompressed: of an AssetFileDescriptor its
   * getParcelFileDescriptor().getFd(), getStartOffset() and getLength(). It may be closed afterwards. At an offset that is
   * a multiple of 8 (zipalign 8) weights are mapped, at others they are read into memory.
   */
  @NonNull
  public Model load(int descriptor, long offset, long bytes, @NonNull WeightCheck check) {
    return own.call(
        p -> new Model(own, Jni.modelOpenSource(p, null, descriptor, offset, bytes, checked(check).packed(own))));
  }

  /** A model in memory: the bytes of a direct buffer from position to limit, of which the model has a copy. */
  @NonNull
  public Model load(@NonNull ByteBuffer memory, @NonNull WeightCheck check) {
    Block block = Block.ofBytes(memory);
    return own.call(p -> new Model(own, Jni.modelOpenSource(p, block, 0, 0, 0, checked(check).packed(own))));
  }

  private static ModelOptions checked(WeightCheck check) {
    ModelOptions options = new ModelOptions();
    options.check = check;
    return options;
  }

  /** Runs every kernel that this device may choose against a known answer; a minute on software Vulkan. */
  @NonNull
  public List<KernelReport> selfTest() {
    return kernels(false);
  }

  /** What a context with a cache knows of them so far, without a test. */
  @NonNull
  public List<KernelReport> knownKernels() {
    return kernels(true);
  }

  private List<KernelReport> kernels(boolean known) {
    List<KernelReport> all = new ArrayList<>();
    for (In in = new In(own.call(p -> Jni.kernels(p, known))); in.hasMore();) all.add(new KernelReport(in));
    return all;
  }

  /** The folder that a run is kept in; writable: to tag, prune and branch, and no trainer may have it open. */
  @NonNull
  public SnapshotStore openStore(@NonNull String folder, boolean writable, @Nullable Cipher cipher) {
    StoreOptions options = new StoreOptions();
    options.writable = writable;
    return own.call(p -> Callbacks.within(Callbacks.of(own.gate, cipher),
        callbacks -> new SnapshotStore(own, Jni.storeOpen(p, folder, options.packed(own), callbacks))));
  }

  /**
   * A memory of examples; a missing file is made with the options' fields, or those of the set `like`.
   */
  @NonNull
  public MemoryFile openMemory(@NonNull String path, @NonNull MemoryOptions options) {
    List<Field> fields = options.like == null ? new ArrayList<>(options.fields) : options.like.fields();
    return own.call(p -> Callbacks.within(Callbacks.of(own.gate, options.cipher),
        callbacks -> new MemoryFile(own, Jni.memoryOpen(p, path, options.packed(own), callbacks), fields)));
  }

  @NonNull
  public Delta loadDelta(@NonNull String path) {
    return own.call(p -> new Delta(own, Jni.deltaLoad(p, path)));
  }

  /** From the bytes of a file. */
  @NonNull
  public Delta loadDelta(@NonNull byte[] file) {
    Block block = Block.ofBytes(file);
    return own.call(p -> new Delta(own, Jni.deltaLoadSource(p, block, 0, 0, 0)));
  }

  /** Of deltas of one base, which stay as they are. A tensor that a delta lacks did not change there. */
  @NonNull
  public Delta average(@NonNull List<Delta> deltas, @NonNull AverageOptions options) {
    return own.call(p -> new Delta(own, Jni.deltaAverage(p, new Out(own).handles(deltas).bytes(), options.packed(own))));
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
  public DataSet openData(@NonNull String spec, @NonNull DataOptions options) {
    return own.call(p -> new DataSet(own, Jni.dataOpenWith(p, spec, options.packed(own))));
  }

  /** Samples in memory: the contents of each field as for {@link Batch}, of which the set has copies. */
  @NonNull
  public DataSet dataOf(@NonNull List<Field> fields, long samples, @NonNull Object... contents) {
    List<ByteBuffer> kept = new ArrayList<>();
    Block[] blocks = DataSet.copies(fields, samples, contents, kept);
    return own.call(p -> {
      DataSet set = new DataSet(own, Jni.dataFromMemory(p, new Out(own).list(fields).bytes(), blocks, samples));
      set.own.keepReachable(kept);
      return set;
    });
  }

  /** Samples that the app makes; 0 of them: nobody knows how many, and they are shuffled through a buffer. */
  @NonNull
  public DataSet dataBy(@NonNull List<Field> fields, long samples, @NonNull DataSet.Reader reader) {
    return own.call(p -> Callbacks.within(Callbacks.of(own.gate, reader), callbacks ->
        new DataSet(own, Jni.dataFromCallback(p, new Out(own).list(fields).bytes(), samples, callbacks))));
  }

  @Override
  public void close() {
    own.close();
  }
}

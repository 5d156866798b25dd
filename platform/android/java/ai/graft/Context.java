package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A device. Any thread may use a context and what was made from it: one call runs at a time, others wait for it.
 * Contexts are independent of each other. Closing is possible in any order, at any time; what is closed throws
 * IllegalStateException, and what is forgotten is freed some time after it became unreachable.
 */
public final class Context implements Closeable {
  /** Where graft's log goes. May be called from graft's own threads; must not call graft. */
  public interface Log {
    void log(@NonNull LogLevel level, @NonNull String message);
  }

  /** In the order of graft_log_level. */
  public enum LogLevel { DEBUG, INFO, WARNING, ERROR }

  /** What products of f32 values may become on matrix units; in the order of graft_matmul_precision. */
  public enum MatmulPrecision { HIGHEST, HIGH, MEDIUM }

  /** Of the device's work among that of all programs, where the driver has such; in the order of graft_priority. */
  public enum Priority { MEDIUM, LOW, HIGH }

  /** When a file's weights are compared with its checksums; in the order of graft_weight_check. */
  public enum WeightCheck { ON_USE, AT_ONCE, NEVER }

  /** What is not set has graft's default. */
  public static final class Options {
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

  private final Owner own;

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
   * From any thread: the call that is under way on this context, if any, throws GraftException with Status.CANCELLED
   * before its next submission to the device. Nothing has changed then; the same step may be asked for again.
   */
  public void cancel() {
    own.beside(Jni::cancel);
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
    return own.call(p -> new Model(own, Jni.modelLoad(p, path, check.ordinal())));
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
        p -> new Model(own, Jni.modelLoadDescriptor(p, null, descriptor, offset, bytes, check.ordinal())));
  }

  /** A model in memory: the bytes of a direct buffer from position to limit, of which the model has a copy. */
  @NonNull
  public Model load(@NonNull ByteBuffer memory, @NonNull WeightCheck check) {
    Block block = Block.of(memory.duplicate().order(ByteOrder.nativeOrder()), "memory");  // bytes have no order
    return own.call(p -> new Model(own, Jni.modelLoadMemory(p, null, block, check.ordinal())));
  }

  @Override
  public void close() {
    own.close();
  }
}

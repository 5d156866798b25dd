package ai.graft;

import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import java.util.Comparator;
import java.util.stream.Stream;

/**
 * Runs the tests: each public method of the classes below whose only argument is the folder that bindings_oracle filled.
 * Usage: Tests FOLDER [PART_OF_A_NAME].
 */
public final class Tests {
  static final int SAMPLES = 4;
  static final int INPUTS = 5;
  static final int CLASSES = 3;
  static final int STEPS = 12;

  static Path folder;
  private static int scratch;

  public static void main(String[] arguments) throws Exception {
    folder = Paths.get(arguments[0]);
    String part = arguments.length > 1 ? arguments[1] : "";
    int failed = 0;
    int ran = 0;
    // Growth first: it is measured in a process that has done nothing else.
    for (Class<?> tests : new Class<?>[] {GrowthTests.class, LifetimeTests.class, RunTests.class, TrainTests.class,
        CheckpointTests.class, GenerateTests.class, MoreTests.class, EvaluateTests.class, MemoryTests.class, RefusalTests.class, ThreadTests.class}) {
      Method[] methods = tests.getDeclaredMethods();
      Arrays.sort(methods, Comparator.comparing(Method::getName));
      for (Method method : methods) {
        String name = tests.getSimpleName() + "." + method.getName();
        if (!java.lang.reflect.Modifier.isPublic(method.getModifiers()) || !name.contains(part)) continue;
        long start = System.nanoTime();
        ran++;
        try {
          method.invoke(null);
          System.out.printf("ok      %s (%d ms)%n", name, (System.nanoTime() - start) / 1000000);
        } catch (InvocationTargetException e) {
          failed++;
          System.out.println("FAILED  " + name);
          e.getCause().printStackTrace(System.out);
        }
      }
    }
    System.out.println(ran + " tests, " + failed + " failed");
    System.exit(failed == 0 && ran > 0 ? 0 : 1);
  }

  // ---- What the tests share ----

  interface Work {
    void run() throws Exception;
  }

  static void check(boolean holds, String what) {
    if (!holds) throw new AssertionError(what);
  }

  static void equal(Object wanted, Object got, String what) {
    if (!java.util.Objects.deepEquals(wanted, got)) {
      throw new AssertionError(what + ": " + text(wanted) + " was wanted, " + text(got) + " came");
    }
  }

  private static String text(Object value) {
    if (value instanceof float[]) return Arrays.toString((float[]) value);
    if (value instanceof byte[]) return ((byte[]) value).length + " bytes";
    return String.valueOf(value);
  }

  /** The exception that `work` throws, which is of this very class; its message holds `part`. */
  static <E extends Throwable> E thrown(Class<E> wanted, String part, Work work) {
    try {
      work.run();
    } catch (Throwable t) {
      if (t.getClass() != wanted) throw new AssertionError(wanted.getName() + " was wanted", t);
      check(String.valueOf(t.getMessage()).contains(part), "The sentence lacks \"" + part + "\": " + t.getMessage());
      return wanted.cast(t);
    }
    throw new AssertionError(wanted.getName() + " was wanted, nothing was thrown");
  }

  static Context context() {
    ContextOptions options = new ContextOptions();
    options.device = device();
    return new Context(options);
  }

  static String device() {
    return new String(bytes("device.txt"), StandardCharsets.UTF_8);
  }

  static Context deviceless() {
    ContextOptions options = new ContextOptions();
    options.device = "none";
    return new Context(options);
  }

  static String file(String name) {
    return folder.resolve(name).toString();
  }

  /** A path that nothing lies at. */
  static Path fresh(String name) {
    Path path = folder.resolve("scratch-" + ProcessHandle.current().pid() + "-" + scratch++ + "-" + name);
    check(!Files.exists(path), path + " exists");
    return path;
  }

  static void remove(Path path) throws IOException {
    if (!Files.exists(path)) return;
    try (Stream<Path> all = Files.walk(path)) {
      for (Path p : (Iterable<Path>) all.sorted(Comparator.reverseOrder())::iterator) Files.delete(p);
    }
  }

  static byte[] bytes(String name) {
    try {
      return Files.readAllBytes(folder.resolve(name));
    } catch (IOException e) {
      throw new AssertionError(e);
    }
  }

  private static ByteBuffer ordered(String name) {
    return ByteBuffer.wrap(bytes(name)).order(ByteOrder.nativeOrder());
  }

  static float[] floats(String name) {
    ByteBuffer all = ordered(name);
    float[] out = new float[all.remaining() / 4];
    all.asFloatBuffer().get(out);
    return out;
  }

  static int[] ints(String name) {
    ByteBuffer all = ordered(name);
    int[] out = new int[all.remaining() / 4];
    all.asIntBuffer().get(out);
    return out;
  }

  static double[] doubles(String name) {
    ByteBuffer all = ordered(name);
    double[] out = new double[all.remaining() / 8];
    all.asDoubleBuffer().get(out);
    return out;
  }

  static long[] longs(String name) {
    ByteBuffer all = ordered(name);
    long[] out = new long[all.remaining() / 8];
    all.asLongBuffer().get(out);
    return out;
  }

  /** Samples of step `step`. */
  static float[] x(int step) {
    return Arrays.copyOfRange(floats("batches.f32"), step * SAMPLES * INPUTS, (step + 1) * SAMPLES * INPUTS);
  }

  static int[] labels(int step) {
    return Arrays.copyOfRange(ints("labels.i32"), step * SAMPLES, (step + 1) * SAMPLES);
  }

  static SessionOptions fourSamples() {
    return new SessionOptions().bind("batch", SAMPLES);
  }

  /** As bindings_oracle trains. */
  static TrainerOptions trainerOptions() {
    return trainerOptions(Optimizer.ADAMW);
  }

  static TrainerOptions trainerOptions(Optimizer optimizer) {
    TrainerOptions options = new TrainerOptions(optimizer);
    options.learningRate = 0.05;
    options.batch = SAMPLES;
    options.seed = 3;
    return options;
  }

  static ByteBuffer direct(float[] values) {
    ByteBuffer out = ByteBuffer.allocateDirect(4 * values.length).order(ByteOrder.nativeOrder());
    out.asFloatBuffer().put(values);
    return out;
  }

  private Tests() {}
}

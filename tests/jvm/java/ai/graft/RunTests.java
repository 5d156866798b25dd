package ai.graft;

import static ai.graft.Tests.bytes;
import static ai.graft.Tests.check;
import static ai.graft.Tests.equal;
import static ai.graft.Tests.file;
import static ai.graft.Tests.floats;
import static ai.graft.Tests.fresh;
import static ai.graft.Tests.x;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;

/** Outputs and gradients have the bits that the C++ API gives on the same device. */
final class RunTests {
  public static void describesTheModel() {
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"))) {
      TensorInfo in = model.inputs().get(0);
      equal("x", in.name, "the input");
      equal(Dtype.F32, in.dtype, "its type");
      check(Arrays.equals(new long[] {-1, 5}, in.shape), "its shape: " + in);
      check(Arrays.equals(new String[] {"batch", ""}, in.dimensions), "its dimensions");
      equal("y", model.outputs().get(0).name, "the output");
      equal(4, model.namedParameters().size(), "parameters");
      equal("fc1.weight", model.namedParameters().get(0).name, "the first parameter");
      check(!context.deviceName().isEmpty(), "the device has a name");
      check(Context.version().matches("\\d+\\.\\d+\\.\\d+"), "the version: " + Context.version());
    }
  }

  public static void gradientsAreThoseOfTheCppApi() {
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"))) {
      SessionOptions options = Tests.fourSamples();
      options.of = "y";
      options.wrt.add("fc1.weight");
      options.wrt.add("x");
      try (Session session = model.session(options)) {
        session.setInput("x", x(0));
        session.setInput("cotangent", floats("cotangent.f32"));
        session.run();
        equal(floats("y.f32"), session.floats("y"), "y");
        equal(floats("grad_fc1.f32"), session.floats("grad:fc1.weight"), "the gradient");
        equal(floats("grad_x.f32"), session.floats("grad:x"), "the gradient of the input");
        check(Arrays.equals(new long[] {4, 3}, session.outputInfo("y").shape), "the shape of y");
        check(session.memory().total > 0 && session.memory().total >= session.memory().activations, "memory");
      }
    }
  }

  public static void gradientsInPiecesAreThoseOfTheCppApi() {
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"))) {
      GradientOptions options = new GradientOptions();
      options.of = "y";
      options.wrt.add("fc1.weight");
      options.bindings.put("batch", 4L);
      options.microBatch = 2;
      Map<String, Object> inputs = new LinkedHashMap<>();
      inputs.put("x", Tests.direct(x(0)));
      inputs.put("cotangent", floats("cotangent.f32"));
      ByteBuffer view;
      try (Gradients gradients = model.gradients(options, inputs)) {
        equal(floats("split_fc1.f32"), gradients.floats("fc1.weight"), "the gradient");
        check(Arrays.equals(new long[] {5, 6}, gradients.info("fc1.weight").shape), "its shape");
        view = gradients.get("fc1.weight");
      }
      equal(ByteBuffer.wrap(bytes("split_fc1.f32")), view, "the view after the gradients were closed");
    }
  }

  public static void sizesChangeWithinABound() {
    SessionOptions options = Tests.fourSamples();
    options.resizable = true;
    options.recoverDevice = true;
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"));
         Session session = model.session(options)) {
      session.setInput("x", x(0));
      session.run();
      float[] whole = session.floats("y");
      equal(floats("y.f32"), whole, "y");
      session.resize(Map.of("batch", 2L));
      session.setInput("x", Arrays.copyOf(x(0), x(0).length / 2));
      session.run();
      equal(Arrays.copyOf(whole, whole.length / 2), session.floats("y"), "y of two");
      session.pause();
      session.run();
      equal(Arrays.copyOf(whole, whole.length / 2), session.floats("y"), "y after a pause");
    }
  }

  public static void buffersAreNotCopied() {
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"));
         Session session = model.session(Tests.fourSamples())) {
      // A part of a larger buffer, by position and limit; and the same as floats.
      ByteBuffer large = ByteBuffer.allocateDirect(4 * 30).order(ByteOrder.nativeOrder());
      large.position(20);
      large.asFloatBuffer().put(x(0));
      large.limit(100);
      session.setInput("x", large);
      session.run();
      equal(floats("y.f32"), session.floats("y"), "y of a part of a buffer");
      equal(20, large.position(), "the position afterwards");
      ByteBuffer view = session.output("y");
      check(view.isDirect() && view.isReadOnly() && view.order() == ByteOrder.nativeOrder(), "the kind of buffer");
      equal(ByteBuffer.wrap(bytes("y.f32")), view, "y");
      FloatBuffer other = ByteBuffer.allocateDirect(80).order(ByteOrder.nativeOrder()).asFloatBuffer();
      other.put(x(1)).flip();
      session.setInput("x", other);
      session.run();
      check(!ByteBuffer.wrap(bytes("y.f32")).equals(view), "the view shows graft's own memory: the run changed it");
      equal(session.floats("y"), View.floats(view), "the view after another run");
    }
  }

  /** The model inside another file, 8 bytes and 3 bytes from its start, and in memory: all give the same bits. */
  public static void modelsInsideOtherFilesAndInMemory() throws Exception {
    byte[] model = bytes("mlp.graft");
    for (int offset : new int[] {8, 3}) {
      Path path = fresh("inside");
      byte[] padded = new byte[offset + model.length + 5];
      System.arraycopy(model, 0, padded, offset, model.length);
      Files.write(path, padded);
      try (Context context = Tests.context(); java.io.RandomAccessFile open = new java.io.RandomAccessFile(path.toFile(), "r");
           Model inside = context.load(descriptorOf(path), offset, model.length, WeightCheck.AT_ONCE)) {
        check(open.getFilePointer() == 0, "the position is not moved");
        equal(floats("y.f32"), y(inside), "y from offset " + offset);
        Tests.thrown(GraftException.InvalidArgument.class, "negative",
            () -> context.load(3, -1, 8, WeightCheck.ON_USE));
        Tests.thrown(GraftException.Io.class, "", () -> context.load(-1, 0, 8, WeightCheck.ON_USE));
      }
      Files.delete(path);
    }
    ByteBuffer memory = ByteBuffer.allocateDirect(model.length);
    memory.put(model).flip();
    try (Context context = Tests.context(); Model copied = context.load(memory, WeightCheck.ON_USE)) {
      for (int i = 0; i < model.length; i++) memory.put(i, (byte) 0);  // the model has bytes of its own
      equal(floats("y.f32"), y(copied), "y from memory");
      Tests.thrown(GraftException.Corrupt.class, "", () -> context.load(memory, WeightCheck.ON_USE));
    }
  }

  private static float[] y(Model model) {
    try (Session session = model.session(Tests.fourSamples())) {
      session.setInput("x", x(0));
      session.run();
      return session.floats("y");
    }
  }

  /** The number under which this process has the file open; Java keeps it to itself. */
  private static int descriptorOf(Path path) throws Exception {
    for (java.io.File link : new java.io.File("/proc/self/fd").listFiles()) {
      if (Files.exists(link.toPath()) && Files.isSameFile(link.toPath(), path)) return Integer.parseInt(link.getName());
    }
    throw new AssertionError(path + " is not open");
  }

  public static void namesAndPathsHoldAnyCharacter() throws Exception {
    Path path = fresh("mödel-\uD834\uDD1E-模.graft");
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"))) {
      model.save(path.toString());
      try (Model again = context.load(path.toString(), WeightCheck.AT_ONCE)) {
        equal(4, again.namedParameters().size(), "parameters");
      }
      GraftException.NotFound missing = Tests.thrown(GraftException.NotFound.class, "\uD834\uDD1E",
          () -> context.load("/nicht/da-\uD834\uDD1E.graft"));
      equal(Status.NOT_FOUND, missing.status(), "the status");
    }
    equal(true, Files.deleteIfExists(path), "the file under its name");
  }

  public static void logsAndTheirExceptionsComeOut() throws Exception {
    Path cache = fresh("cache");
    Files.write(cache, new byte[] {1, 2, 3});  // no pipeline cache: a warning
    StringBuilder said = new StringBuilder();
    ContextOptions options = new ContextOptions();
    options.device = Tests.device();
    options.pipelineCache = cache.toString();
    options.log = (level, message) -> said.append(level).append(' ').append(message).append('\n');
    new Context(options).close();
    check(said.toString().contains("WARNING The pipeline cache"), "the log: " + said);
    Files.write(cache, new byte[] {1, 2, 3});
    options.log = (level, message) -> {
      throw new UnsupportedOperationException("no log today");
    };
    Tests.thrown(UnsupportedOperationException.class, "no log today", () -> new Context(options).close());
    Files.write(cache, new byte[] {1, 2, 3});
    options.log = (level, message) -> Tests.deviceless().close();
    Tests.thrown(IllegalStateException.class, "must not call graft", () -> new Context(options).close());
    Files.deleteIfExists(cache);
  }

  private RunTests() {}
}

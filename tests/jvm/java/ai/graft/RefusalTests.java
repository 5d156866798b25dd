package ai.graft;

import static ai.graft.Tests.file;
import static ai.graft.Tests.labels;
import static ai.graft.Tests.thrown;
import static ai.graft.Tests.x;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;

/** Wrong arguments: the right exception, a sentence, and nothing has happened. */
final class RefusalTests {
  private static final Class<GraftException.InvalidArgument> INVALID = GraftException.InvalidArgument.class;

  public static void samplesOfAnotherSizeOrType() {
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"));
         Trainer trainer = model.trainer(Tests.trainerOptions())) {
      thrown(INVALID, "takes 80 bytes for 4 samples; 76 were given", () -> trainer.trainStep(new float[19], labels(0)));
      thrown(INVALID, "takes ints; floats were given",
          () -> trainer.trainStep(new Batch(4).input(x(0)).target(new float[4])));
      thrown(INVALID, "takes floats; ints were given",
          () -> trainer.trainStep(new Batch(4).input(new int[20]).target(labels(0))));
      thrown(INVALID, "1 inputs; 2 were given",
          () -> trainer.trainStep(new Batch(4).input(x(0)).input(x(0)).target(labels(0))));
      thrown(INVALID, "at least one sample", () -> trainer.trainStep(new Batch(0).input(x(0)).target(labels(0))));
      thrown(INVALID, "12 were given", () -> trainer.evaluate(new Batch(4).input(x(0)).target(new int[3])));
      thrown(NullPointerException.class, "is null", () -> trainer.trainStep(new Batch(4).input(x(0))));
      thrown(INVALID, "java.lang.String", () -> trainer.trainStep(new Batch(4).input("x").target(labels(0))));
      thrown(INVALID, "", () -> trainer.trainStep(x(0), new int[] {0, 1, 2, 3}));  // there is no class 3
      float[] broken = x(0);
      broken[7] = Float.NaN;
      thrown(INVALID, "", () -> trainer.trainStep(broken, labels(0)));
      Tests.equal(Tests.doubles("losses.f64")[0], trainer.trainStep(x(0), labels(0)).loss, "the first loss after all that");
      thrown(INVALID, "must not be negative", () -> trainer.trim(-1));
      thrown(INVALID, "", () -> trainer.saveCheckpoint());
      thrown(GraftException.NotFound.class, "", () -> trainer.fetch("nothing"));
    }
  }

  public static void buffersThatWouldBeReadWrongly() {
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"));
         Session session = model.session(Tests.fourSamples())) {
      thrown(INVALID, "nativeOrder", () -> session.setInput("x", ByteBuffer.allocateDirect(80).order(
          ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN ? ByteOrder.BIG_ENDIAN : ByteOrder.LITTLE_ENDIAN)));
      thrown(INVALID, "not direct", () -> session.setInput("x", FloatBuffer.wrap(x(0))));
      thrown(INVALID, "takes 80 bytes", () -> session.setInput("x", new float[3]));
      thrown(GraftException.NotFound.class, "no input \"z\"", () -> session.setInput("z", x(0)));
      thrown(INVALID, "was not given", session::run);
      session.setInput("x", x(0));
      session.run();
      thrown(GraftException.NotFound.class, "", () -> session.output("z"));
      Tests.equal(Tests.floats("y.f32"), session.floats("y"), "y after all that");
    }
  }

  public static void filesAndOptions() {
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"))) {
      thrown(GraftException.NotFound.class, "/nowhere.graft", () -> context.load("/nowhere.graft"));
      thrown(GraftException.Corrupt.class, "batches.f32", () -> context.load(file("batches.f32")));
      thrown(INVALID, "holds a zero character", () -> context.load("a\0b"));
      thrown(GraftException.NotFound.class, "left as it was", () -> model.save("/nonexistent-folder/m.graft"));
      thrown(GraftException.Unsupported.class, "", () -> model.generator());
      thrown(INVALID, "batch", () -> model.session(new SessionOptions()));
      TrainerOptions negative = Tests.trainerOptions();
      negative.batch = -1;
      thrown(INVALID, "\"batch\" is -1", () -> model.trainer(negative));
      TrainerOptions none = Tests.trainerOptions();
      none.loss = null;
      thrown(INVALID, "\"loss\" is null", () -> model.trainer(none));
      TrainerOptions tight = Tests.trainerOptions();
      tight.budget = 64;
      thrown(GraftException.OutOfMemory.class, "smallest", () -> model.trainer(tight));
    }
    ContextOptions absent = new ContextOptions();
    absent.device = "no such device";
    thrown(GraftException.NotFound.class, "no such device", () -> new Context(absent).close());
  }

  private RefusalTests() {}
}

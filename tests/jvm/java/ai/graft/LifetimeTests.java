package ai.graft;

import static ai.graft.Tests.check;
import static ai.graft.Tests.equal;
import static ai.graft.Tests.file;
import static ai.graft.Tests.thrown;
import static ai.graft.Tests.x;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;

final class LifetimeTests {
  /** Waits until every native object is gone. */
  static void collectAll() throws InterruptedException {
    for (int i = 0; Owner.alive() > 0; i++) {
      check(i < 500, Owner.alive() + " native objects are left");
      System.gc();
      Thread.sleep(20);
    }
  }

  /** Contexts, models, sessions, trainers, generators and views, closed or forgotten in 24 random orders. */
  public static void anyOrderOfClosingAndCollecting() throws Exception {
    collectAll();
    for (int seed = 0; seed < 24; seed++) closeInSomeOrder(new Random(seed));
    collectAll();
  }

  private static void closeInSomeOrder(Random random) {
    Context context = Tests.context();
    Model model = context.load(file("mlp.graft"));
    Model letters = context.load(file("letters.graft"));
    Session session = model.session(Tests.fourSamples());
    session.setInput("x", x(0));
    session.run();
    ByteBuffer view = session.output("y");
    List<AutoCloseable> all = new ArrayList<>();
    Collections.addAll(all, context, model, letters, session);
    if (random.nextInt(6) == 0) Collections.addAll(all, model.trainer(Tests.trainerOptions()), letters.generator());
    Collections.shuffle(all, random);
    for (AutoCloseable one : all) {
      if (random.nextBoolean()) continue;  // forgotten
      try {
        one.close();
        one.close();  // does nothing
      } catch (Exception e) {
        throw new AssertionError(e);
      }
      if (random.nextInt(4) == 0) System.gc();
    }
    equal(ByteBuffer.wrap(Tests.bytes("y.f32")), view, "the view outlives what it is from");
  }

  public static void closedMeansIllegalState() {
    Context context = Tests.context();
    Model model = context.load(file("mlp.graft"));
    Model letters = context.load(file("letters.graft"));
    Session session = model.session(Tests.fourSamples());
    Trainer trainer = model.trainer(Tests.trainerOptions());
    Generator generator = letters.generator();
    context.close();
    // What was made from it still works.
    session.setInput("x", x(0));
    session.run();
    equal(Tests.floats("y.f32"), session.floats("y"), "y after the context was closed");
    model.close();
    equal(1L, trainer.trainStep(x(0), Tests.labels(0)).step, "a step after the model was closed");
    session.close();
    trainer.close();
    generator.close();
    letters.close();
    thrown(IllegalStateException.class, "The context is closed.", context::deviceName);
    thrown(IllegalStateException.class, "The model is closed.", model::inputs);
    thrown(IllegalStateException.class, "The session is closed.", session::run);
    thrown(IllegalStateException.class, "The session is closed.", () -> session.output("y"));
    thrown(IllegalStateException.class, "The trainer is closed.", trainer::store);
    thrown(IllegalStateException.class, "The generator is closed.", () -> generator.generate("a"));
  }

  private LifetimeTests() {}
}

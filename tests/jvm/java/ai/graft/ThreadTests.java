package ai.graft;

import static ai.graft.Tests.check;
import static ai.graft.Tests.equal;
import static ai.graft.Tests.file;
import static ai.graft.Tests.labels;
import static ai.graft.Tests.thrown;
import static ai.graft.Tests.x;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;

/** Calls from several threads take turns. */
final class ThreadTests {
  private static void together(List<Callable<Void>> work) throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(work.size());
    try {
      for (Future<Void> each : threads.invokeAll(work, 60, TimeUnit.SECONDS)) each.get();
    } finally {
      threads.shutdownNow();
    }
  }

  public static void sessionsOfOneContext() throws Exception {
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"))) {
      List<Callable<Void>> work = new ArrayList<>();
      for (int t = 0; t < 4; t++) {
        work.add(() -> {
          for (int i = 0; i < 10; i++) {
            try (Session session = model.session(Tests.fourSamples())) {
              session.setInput("x", x(0));
              session.run();
              equal(Tests.floats("y.f32"), session.floats("y"), "y");
            }
          }
          return null;
        });
      }
      together(work);
    }
  }

  public static void stepsOfOneTrainer() throws Exception {
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"));
         Trainer trainer = model.trainer(Tests.trainerOptions())) {
      List<Callable<Void>> work = new ArrayList<>();
      for (int t = 0; t < 4; t++) {
        work.add(() -> {
          for (int i = 0; i < 25; i++) trainer.trainStep(x(i % 12), labels(i % 12));
          return null;
        });
      }
      together(work);
      equal(101L, trainer.trainStep(x(0), labels(0)).step, "steps of four threads and one more");
    }
  }

  /** A close waits for the call that is under way; what comes after it is refused. */
  public static void closingWhileAnotherThreadWorks() throws Exception {
    try (Context context = Tests.context(); Model model = context.load(file("letters.graft"))) {
      Generator generator = model.generator();
      CountDownLatch inside = new CountDownLatch(1);
      CountDownLatch goOn = new CountDownLatch(1);
      AtomicBoolean closed = new AtomicBoolean();
      List<Callable<Void>> work = new ArrayList<>();
      work.add(() -> {
        String text = generator.generate("abc", GenerateTests.sampling(), piece -> {
          inside.countDown();
          try {
            goOn.await();
          } catch (InterruptedException e) {
            throw new AssertionError(e);
          }
          check(!closed.get(), "it was closed in the middle");
          return true;
        });
        equal(GenerateTests.wanted(), text, "the text");
        return null;
      });
      work.add(() -> {
        inside.await();
        new Thread(() -> {
          generator.close();
          closed.set(true);
        }).start();
        Thread.sleep(100);
        check(!closed.get(), "the close waits");
        goOn.countDown();
        return null;
      });
      together(work);
      for (int i = 0; !closed.get(); i++) {
        check(i < 500, "the close came to its end");
        Thread.sleep(10);
      }
      thrown(IllegalStateException.class, "The generator is closed.", () -> generator.generate("abc"));
    } catch (ExecutionException e) {
      throw new AssertionError(e.getCause());
    }
  }

  private ThreadTests() {}
}

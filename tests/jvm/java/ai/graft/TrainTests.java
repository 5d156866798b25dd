package ai.graft;

import static ai.graft.Tests.STEPS;
import static ai.graft.Tests.bytes;
import static ai.graft.Tests.check;
import static ai.graft.Tests.doubles;
import static ai.graft.Tests.equal;
import static ai.graft.Tests.file;
import static ai.graft.Tests.fresh;
import static ai.graft.Tests.labels;
import static ai.graft.Tests.x;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;

final class TrainTests {
  /** Arrays, buffers and micro-steps in turn: the weights' file has the bytes of the C++ API's. */
  public static void trainsToTheBytesOfTheCppApi() throws Exception {
    Path out = fresh("trained.graft");
    double[] losses = doubles("losses.f64");
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"));
         Trainer trainer = model.trainer(Tests.trainerOptions())) {
      for (int step = 0; step < STEPS; step++) {
        Metrics metrics;
        if (step % 3 == 0) {
          metrics = trainer.trainStep(x(step), labels(step));
        } else if (step % 3 == 1) {
          ByteBuffer classes = ByteBuffer.allocateDirect(16).order(ByteOrder.nativeOrder());
          classes.asIntBuffer().put(labels(step));
          metrics = trainer.trainStep(new Batch(4).input(Tests.direct(x(step))).target(classes.asIntBuffer()));
        } else {
          Batch batch = new Batch(4).input(x(step)).target(labels(step));
          do metrics = trainer.microStep(batch);
          while (metrics == null);
        }
        equal(losses[step], metrics.loss, "the loss of step " + step);
        equal(step + 1L, metrics.step, "its number");
        check(metrics.accuracy >= 0 && metrics.accuracy <= 1, "its accuracy");
      }
      trainer.store();
      model.save(out.toString());
    }
    equal(bytes("trained.graft"), Files.readAllBytes(out), "the trained file");
    Files.delete(out);
  }

  /** Another thread cancels and changes the pace all the time; the app pauses the run now and then. */
  public static void aDisturbedRunEndsWithTheSameBytes() throws Exception {
    Path out = fresh("disturbed.graft");
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"))) {
      TrainerOptions options = Tests.trainerOptions();
      options.recoverDevice = true;
      java.util.concurrent.atomic.AtomicBoolean done = new java.util.concurrent.atomic.AtomicBoolean();
      Thread other = new Thread(() -> {
        for (int i = 0; !done.get(); i++) {
          context.setPace(i % 2 * 8, i % 3 == 0 ? 0.5 : 1);
          context.cancel();
          java.util.concurrent.locks.LockSupport.parkNanos(300_000);
        }
      });
      try (Trainer trainer = model.trainer(options)) {
        other.start();
        int cancelled = 0;
        for (int step = 0; step < STEPS; step++) {
          Batch batch = new Batch(4).input(x(step)).target(labels(step));
          while (true) {
            try {
              trainer.trainStep(batch);
              break;
            } catch (GraftException.Cancelled e) {
              cancelled++;
            }
          }
          if (step % 5 == 1) trainer.pause();
        }
        done.set(true);
        other.join();
        context.uncancel();
        check(cancelled > 0, "no cancel came into a step");
        trainer.store();
      } finally {
        done.set(true);
      }
      model.save(out.toString());
      Tests.thrown(IllegalArgumentException.class, "sliceMs", () -> context.setPace(0.1, 1));
    }
    equal(bytes("trained.graft"), Files.readAllBytes(out), "the trained file");
    Files.delete(out);
  }

  /** Each loss and optimizer is tested by tests/bindings/defaults_test.py, how options cross by tests/interface. */
  public static void aLossWithoutATargetTrains() {
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"))) {
      TrainerOptions options = Tests.trainerOptions();
      options.classWeights = new double[] {2, 2};
      Tests.thrown(GraftException.InvalidArgument.class, "weight", () -> model.trainer(options).close());
      options.classWeights = null;
      options.loss = Loss.OUTPUT;  // the mean of y: no target
      try (Trainer trainer = model.trainer(options)) {
        equal(1, trainer.sample().size(), "its parts");
        Batch batch = new Batch(4).input(x(0));
        double first = trainer.evaluate(batch).loss;
        trainer.trainStep(batch);
        check(trainer.evaluate(batch).loss < first, "the output falls");
        Tests.thrown(GraftException.InvalidArgument.class, "inputs", () -> trainer.trainStep(x(0), labels(0)));
      }
    }
  }

  public static void forecastsWithoutADevice() {
    long[] wanted = Tests.longs("forecast.i64");
    try (Context context = Tests.deviceless(); Model model = context.load(file("mlp.graft"))) {
      Forecast forecast = model.forecast(Tests.trainerOptions());
      // Of a device with other limits, the plan may differ; the same arithmetic has the same FLOPs.
      equal(wanted[1], forecast.flops, "FLOPs");
      equal(4, forecast.microBatch, "samples at once");
      TrainerOptions tight = Tests.trainerOptions();
      tight.budget = 64;
      Tests.thrown(GraftException.OutOfMemory.class, "smallest", () -> model.forecast(tight));
      Tests.thrown(GraftException.InvalidArgument.class, "\"none\"", () -> model.trainer(Tests.trainerOptions()));
    }
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"))) {
      equal(wanted[0], model.forecast(Tests.trainerOptions()).total, "bytes");
      try (Trainer trainer = model.trainer(Tests.trainerOptions())) {
        equal(wanted[0], trainer.memory().total, "bytes of the trainer");
      }
    }
  }

  public static void evaluatesFetchesAndTrims() {
    TrainerOptions options = Tests.trainerOptions();
    options.fetch.add("y");
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"));
         Trainer trainer = model.trainer(options)) {
      equal("x", trainer.sample().get(0).name, "the sample's first part");
      equal(2, trainer.sample().size(), "its parts");
      double before = trainer.evaluate(x(0), labels(0)).loss;
      equal(doubles("losses.f64")[0], trainer.trainStep(x(0), labels(0)).loss, "the first loss");
      equal(Tests.floats("y.f32"), trainer.fetch("y"), "y as the step computed it");
      check(trainer.evaluate(x(0), labels(0)).loss < before, "one step on these samples lowers their loss");
      equal(0L, trainer.shortages(), "shortages");
      trainer.setBudget(trainer.memory().total);
      equal(doubles("losses.f64")[1], trainer.trainStep(x(1), labels(1)).loss, "the loss under a budget");
      Tests.thrown(GraftException.OutOfMemory.class, "smallest", () -> trainer.setBudget(64));
      Tests.thrown(GraftException.OutOfMemory.class, "", () -> trainer.trim(trainer.memory().total));
      equal(doubles("losses.f64")[2], trainer.trainStep(x(2), labels(2)).loss, "the loss after refused budgets");
    }
  }

  public static void adaptersAreThoseOfTheCppApi() throws Exception {
    Path out = fresh("adapters.graft");
    try (Context context = Tests.context(); Model model = context.load(file("letters.graft"))) {
      model.addAdapters("r=2,alpha=4", 5);
      model.saveAdapters(out.toString());
      equal(bytes("adapters.graft"), Files.readAllBytes(out), "the adapters' file");
      int withAdapters = model.namedParameters().size();
      check(model.namedParameters().stream().allMatch(p -> p.name.contains("lora")), "all else is frozen");
      try (Generator generator = model.generator()) {
        // Fresh adapters add nothing: the text is the base's.
        generator.swapAdapters(file("adapters.graft"));
        equal(GenerateTests.wanted(), generator.generate("abc", GenerateTests.sampling(), null), "the text");
        Tests.thrown(IllegalStateException.class, "close them first", () -> model.addAdapters("", 1));
      }
      model.loadAdapters(null);
      check(model.namedParameters().stream().noneMatch(p -> p.name.contains("lora")), "adapters are left");
      model.loadAdapters(out.toString());
      equal(withAdapters, model.namedParameters().size(), "parameters with adapters");
      model.mergeAdapters(null);
      check(model.namedParameters().stream().noneMatch(p -> p.name.contains("lora")), "adapters are merged");
    }
    Files.delete(out);
  }

  private TrainTests() {}
}

package ai.graft;

import static ai.graft.Tests.bytes;
import static ai.graft.Tests.check;
import static ai.graft.Tests.doubles;
import static ai.graft.Tests.equal;
import static ai.graft.Tests.file;
import static ai.graft.Tests.floats;
import static ai.graft.Tests.fresh;
import static ai.graft.Tests.thrown;

import java.nio.IntBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/** Evaluations, gates, deltas, vectors, importance: the numbers of the C++ API. */
final class EvaluateTests {
  private static DataSet data(Context context) {
    int[] labels = Tests.ints("labels.i32");
    return context.dataOf(
        Arrays.asList(new Field("x", Dtype.F32, Field.Role.INPUT, Tests.INPUTS),
            new Field("label", Dtype.I32, Field.Role.TARGET)),
        labels.length, floats("batches.f32"), labels);
  }

  private static EvaluationOptions asked(TrainerOptions training) {
    EvaluationOptions options = new EvaluationOptions();
    options.metrics = "f1,accuracy";
    options.confusion = true;
    options.outcomes = true;
    options.training = training;
    return options;
  }

  private static GateOptions conditions(String conditions, double margin) {
    GateOptions options = new GateOptions();
    options.conditions = conditions;
    options.margin = margin;
    options.training = new TrainerOptions();
    return options;
  }

  public static void evaluationsAreThoseOfTheCppApi() {
    TrainerOptions usual = new TrainerOptions();
    try (Context context = Tests.context(); Model base = context.load(file("mlp.graft"));
         Model trained = context.load(file("trained.graft")); DataSet set = data(context);
         Evaluation before = base.evaluation(set, asked(usual)); Evaluation now = trained.evaluation(set, asked(usual))) {
      List<Double> numbers = new ArrayList<>(Arrays.asList(now.totals().loss, now.totals().accuracy));
      for (MetricValue metric : now.metrics()) {
        numbers.add(metric.value);
        for (double one : metric.byClass) numbers.add(one);
      }
      for (long count : now.confusion()) numbers.add((double) count);
      Comparison compared = now.compare(before);
      for (long count : new long[] {compared.onlyOld, compared.onlyNew, compared.changed.length, compared.lost.length}) {
        numbers.add((double) count);
      }
      numbers.add(compared.pValue);
      equal(doubles("evaluation.f64"), numbers.stream().mapToDouble(Double::doubleValue).toArray(), "the numbers");
      equal(compared.rows, compared.classes.stream().mapToLong(one -> one.rows).sum(), "rows of classes");
      check(Evaluation.metricNames().contains("f1"), "names of metrics");
      thrown(GraftException.InvalidArgument.class, "speed", () -> {
        EvaluationOptions wrong = asked(usual);
        wrong.metrics = "speed";
        trained.evaluation(set, wrong).close();
      });
    }
  }

  public static void gatesAndVerdicts() throws Exception {
    Path out = fresh("gate.graft");
    try (Context context = Tests.context(); Model base = context.load(file("mlp.graft"));
         Model trained = context.load(file("trained.graft")); DataSet set = data(context)) {
      GateResult gated = trained.gate(set, base, conditions("accuracy>=0.2", 1), out.toString());
      check(gated.passed && Files.exists(out) && !Double.isNaN(gated.before), "the gate: " + gated.reason);
      gated = trained.gate(set, null, conditions("accuracy>=0.99", 0), null);
      check(!gated.passed && gated.reason.contains("accuracy"), gated.reason);
      TrainerOptions options = Tests.trainerOptions();
      options.predictions = true;
      options.schedule = Schedule.PLATEAU;
      WatchOptions watch = new WatchOptions();
      watch.best = "f1";
      watch.plateau = "loss";
      watch.patience = 0;
      try (Trainer trainer = trained.trainer(options); Evaluation made = trainer.evaluation(set, asked(null))) {
        check(trainer.observe(made, watch).best, "the first is the best");
        Verdict verdict = trainer.observe(made, watch);
        check(!verdict.best && verdict.slower && verdict.learningRate < 0.05, "the same again");
        equal(made.totals().loss, trainer.evaluate(set).loss, "the loss");
      }
    }
    Files.delete(out);
  }

  public static void deltasAreThoseOfTheCppApi() throws Exception {
    Path sent = fresh("sent");
    Path out = fresh("federated.graft");
    try (Context context = Tests.context(); Model base = context.load(file("mlp.graft"));
         Model updated = context.load(file("trained.graft"))) {
      DeltaOptions options = new DeltaOptions();
      options.samples = 48;
      options.coding = DeltaCoding.INT8;
      options.clipNorm = 0.5;
      Delta delta = updated.deltaFrom(base, options);
      equal(bytes("delta.bin"), delta.bytes(), "its bytes");
      equal(48L, delta.info().samples, "samples");
      equal(DeltaCoding.INT8, delta.info().coding, "the coding");
      String name = delta.tensors().get(0).name;
      delta.save(sent.toString());
      Delta again = context.loadDelta(sent.toString());
      equal(delta.numbers(name), context.loadDelta(delta.bytes()).numbers(name), "numbers");
      DeltaOptions plain = new DeltaOptions();
      plain.samples = 16;
      Delta average = context.average(Arrays.asList(again, updated.deltaFrom(base, plain)), new AverageOptions());
      average.applyTo(base, 0.5);
      base.save(out.toString());
      equal(bytes("federated.graft"), Files.readAllBytes(out), "the averaged file");
      thrown(GraftException.InvalidArgument.class, "", () -> average.applyTo(updated, 1));
      thrown(GraftException.Corrupt.class, "", () -> context.loadDelta(Arrays.copyOf(delta.bytes(), 100)));
      thrown(GraftException.NotFound.class, "", () -> delta.numbers("nothing"));
      try (Session session = updated.session(Tests.fourSamples())) {
        thrown(IllegalStateException.class, "weights", () -> delta.applyTo(updated, 1));
      }
      plain.coding = DeltaCoding.FIXED;
      plain.fixedBits = 16;
      Delta fixed = updated.deltaFrom(context.load(file("mlp.graft")), plain);
      IntBuffer integers = fixed.integers(name);
      int first = integers.get(0);
      integers.put(0, first + 7);
      fixed.close();
      System.gc();
      equal(first + 7, integers.get(0), "the integer in place, which keeps the delta");
      check(context.privacy(1, 0.1, 10, 1e-5) > 0, "privacy");
    }
    Files.delete(sent);
    Files.delete(out);
  }

  public static void vectorsAndImportanceAreThoseOfTheCppApi() {
    try (Context context = Tests.context(); Model model = context.load(file("letters.graft"));
         Tokenizer tokenizer = model.tokenizer()) {
      EmbedderOptions options = new EmbedderOptions();
      options.pooling = Pooling.MEAN;
      options.normalize = true;
      options.length = 16;
      try (Embedder embedder = model.embedder(options)) {
        int[] tokens = new int[2];
        float[][] vectors = embedder.embed(new String[] {"abc", "ponm"}, tokens);
        float[] wanted = floats("vectors.f32");
        int width = embedder.width();
        equal(Arrays.copyOfRange(wanted, 0, width), vectors[0], "a vector");
        equal(Arrays.copyOfRange(wanted, width, 2 * width), vectors[1], "another");
        equal(tokenizer.encode("abc").length, tokens[0], "tokens");
        equal(16, embedder.length(), "length");
        equal(vectors[0], embedder.embed(new int[][] {tokenizer.encode("abc")})[0], "of tokens");
        check(embedder.memory().total > 0, "memory");
        thrown(GraftException.InvalidArgument.class, "", () -> embedder.embed("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
      }
      ImportanceOptions asked = new ImportanceOptions();
      asked.context = 16;
      try (Importance importance = model.importance(asked)) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < 40; i++) text.append('c');
        equal(2L, importance.add(text.toString()), "chunks");
        while (importance.step() != 0) importance.memory();
        equal(doubles("importance.f64"),
            importance.matrices().stream().flatMapToDouble(one -> Arrays.stream(one.sums)).toArray(), "the sums");
        equal(2L, importance.progress().chunks, "chunks that were computed");
        equal(1L, importance.add(tokenizer.encode(text.substring(0, 20))), "of tokens");
      }
    }
  }

  public static void plansAreThoseOfTheCppApi() {
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"))) {
      TrainerOptions options = new TrainerOptions();
      options.batch = 4;
      Plan plan = model.plan(options, null, true);
      List<Long> numbers = new ArrayList<>();
      for (PlanNode n : plan.nodes) {
        numbers.addAll(Arrays.asList((long) n.name.length(), n.flops, n.bytes, (long) n.dispatches));
      }
      for (PlanValue v : plan.values) numbers.addAll(Arrays.asList(v.offset, v.bytes, (long) v.first, (long) v.last));
      for (PlanPoint p : plan.curve) numbers.addAll(Arrays.asList(p.bytes, (long) p.recomputed));
      for (Layer l : model.layers(java.util.Collections.singletonMap("batch", 4L))) {
        numbers.addAll(Arrays.asList(l.parameters, l.bytes, l.flops));
      }
      equal(Tests.longs("plan.i64"), numbers.stream().mapToLong(Long::longValue).toArray(), "the plan");
      equal(model.forecast(options).total, plan.forecast.total, "its forecast");
      check(!model.plan(Tests.fourSamples(), "adreno-7xx").nodes.isEmpty(), "a phone's plan");
      equal(0, model.findDamage().size(), "damage");
      List<NodeVerdict> verdicts = model.verify(new VerifyOptions().bind("batch", 2));
      check(!verdicts.isEmpty() && verdicts.stream().allMatch(one -> one.passed), "verdicts on nodes");
      check(Device.all().stream().anyMatch(one -> one.info.name.equals(context.deviceName())), "the device");
      thrown(GraftException.InvalidArgument.class, "", context::knownKernels);
    }
  }

  public static void aRunsFolderIsReadAndTidied() throws Exception {
    Path folder = fresh("kept");
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"))) {
      TrainerOptions options = Tests.trainerOptions();
      options.checkpoints = true;
      CheckpointOptions kept = new CheckpointOptions(folder.toString());
      kept.metadata.put("app", "mine");
      try (DataSet set = data(context)) {
        options.data = set;
        LoaderOptions order = new LoaderOptions();
        order.batch = Tests.SAMPLES;
        order.inOrder = true;
        order.epochs = 1;
        double[] losses = doubles("losses.f64");
        try (Trainer trainer = model.trainer(options); Loader loader = set.loader(order)) {
          kept.loader = loader;
          trainer.openCheckpoint(kept);
          trainer.trainNext(loader);
          trainer.saveCheckpoint("one");
          trainer.trainNext(loader);
          trainer.saveCheckpoint();
        }
        try (SnapshotStore store = context.openStore(folder.toString(), true, null)) {
          equal(3, store.snapshots().size(), "snapshots, and that of the beginning");
          equal(1L, store.snapshot("one").step, "its step");
          equal("one", store.snapshots().get(1).tags, "its tags");
          equal("mine", store.metadata("one", "app"), "metadata");
          thrown(GraftException.NotFound.class, "", () -> store.metadata("one", "nothing"));
          check(store.verify().isEmpty(), "problems: " + store.verify());
          check(store.differences("one", null).stream().anyMatch(
              one -> one.difference == Difference.CHANGED), "nothing changed");
          check(store.restore("one", model) > 0, "tensors");
          store.tag("one", "again");
          store.untag("one", "again");
          store.branch("one");
          equal(1L, store.prune(1), "snapshots that went");
        }
        try (Trainer trainer = model.trainer(options); Loader loader = set.loader(order)) {
          kept.loader = loader;
          kept.resume = true;
          equal(1L, trainer.openCheckpoint(kept).step, "the step that is gone on from");
          equal(losses[1], trainer.trainNext(loader).loss, "the loader's place");
        }
      }
    }
    Tests.remove(folder);
  }

  private EvaluateTests() {}
}

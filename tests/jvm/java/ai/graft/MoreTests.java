package ai.graft;

import static ai.graft.Tests.bytes;
import static ai.graft.Tests.check;
import static ai.graft.Tests.doubles;
import static ai.graft.Tests.equal;
import static ai.graft.Tests.file;
import static ai.graft.Tests.floats;
import static ai.graft.Tests.fresh;
import static ai.graft.Tests.labels;
import static ai.graft.Tests.thrown;
import static ai.graft.Tests.x;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** Several texts, teachers, data sets, and what a model says of itself. */
final class MoreTests {
  private static GenerateOptions sampling() {
    GenerateOptions sampling = new GenerateOptions();
    sampling.maxTokens = 8;
    sampling.temperature = 1.5;
    sampling.seed = 11;
    sampling.bias.put(2, 3f);
    sampling.bias.put(4, Float.NEGATIVE_INFINITY);
    sampling.logProbabilities = true;
    sampling.mostProbable = 2;
    sampling.grammar = "root ::= [a-f]+";
    return sampling;
  }

  public static void severalTextsAtOnceAreThoseOfTheCppApi() {
    GeneratorOptions options = new GeneratorOptions();
    options.context = 40;
    options.cache = CacheFormat.F16;
    options.sequences = 2;
    try (Context context = Tests.context(); Model model = context.load(file("letters.graft"));
         Generator generator = model.generator(options)) {
      StringBuilder pieces = new StringBuilder();
      List<Integer> tokens = new ArrayList<>();
      int[] scores = {0};
      long first = generator.submit("abc", sampling(), piece -> pieces.append(piece) != null, (token, logits) -> {
        tokens.add(token);
        scores[0] = logits.remaining();
        return true;
      });
      try (Tokenizer tokenizer = model.tokenizer()) {
        generator.submit(tokenizer.encode("abd"), sampling(), null, null);
      }
      long dropped = generator.submit("p", sampling(), piece -> true, null);
      generator.drop(dropped);
      thrown(GraftException.NotFound.class, "", () -> generator.drop(dropped));
      while (generator.step() != 0) generator.memory();
      StringBuilder texts = new StringBuilder();
      List<Float> sure = new ArrayList<>();
      for (Generator.Finished one = generator.finished(); one != null; one = generator.finished()) {
        check(one.failure == null, "a text failed: " + one.failure);
        if (one.id == first) equal(one.text.text, pieces.toString(), "its pieces");
        if (one.id == first) equal(one.text.tokens.length, tokens.size(), "its tokens");
        texts.append(one.text.text).append('\n');
        for (float one1 : one.text.logProbabilities) sure.add(one1);
        for (TokenProbability p : one.text.mostProbable) sure.add(p.logProbability);
      }
      equal(new String(bytes("several.txt"), StandardCharsets.UTF_8), texts.toString(), "the texts");
      float[] wanted = floats("several.f32");
      equal(wanted.length, sure.size(), "logarithms");
      for (int i = 0; i < wanted.length; i++) equal(wanted[i], sure.get(i), "logarithm " + i);
      equal(17, scores[0], "scores of a token");
      // What a listener throws comes out of the step, and ends its text.
      generator.submit("abc", sampling(), piece -> {
        throw new ArithmeticException("mine");
      }, null);
      thrown(ArithmeticException.class, "mine", () -> {
        while (generator.step() != 0) generator.memory();
      });
      // A grammar that is none fails where it is asked for.
      GenerateOptions bad = sampling();
      bad.grammar = "root ::=";
      bad.jsonSchema = "{}";
      thrown(GraftException.InvalidArgument.class, "", () -> generator.submit("abc", bad, null, null));
      generator.submit("abc", sampling(), piece -> true, null);  // goes with the generator
    }
  }

  public static void aTeacherIsLearnedFromAsInTheCppApi() throws Exception {
    Path out = fresh("taught.graft");
    double[] losses = doubles("taught.f64");
    try (Context context = Tests.context(); Model model = context.load(file("letters.graft"))) {
      DataOptions asked = new DataOptions();
      asked.model = model;
      asked.length = 12;
      TrainerOptions options = new TrainerOptions();
      options.learningRate = 0.01;
      options.batch = 2;
      options.seed = 3;
      options.distillWeight = 0.75;
      try (DataSet set = context.openData("text:" + file("letters.txt"), asked)) {
        options.data = set;
        options.teacher = context.load(file("teacher.graft"));
        LoaderOptions order = new LoaderOptions();
        order.batch = 2;
        order.seed = 7;
        order.epochs = 9;
        try (Trainer trainer = model.trainer(options); Loader loader = set.loader(order)) {
          options.teacher.close();
          for (double loss : losses) equal(loss, trainer.trainNext(loader).loss, "a loss");
          trainer.store();
        }
        thrown(IllegalStateException.class, "closed", () -> model.trainer(options));
        try (Context other = Tests.deviceless(); Model foreign = other.load(file("teacher.graft"))) {
          options.teacher = foreign;
          thrown(GraftException.InvalidArgument.class, "another context", () -> model.trainer(options));
        }
      }
      model.save(out.toString());
    }
    equal(bytes("taught.graft"), Files.readAllBytes(out), "the file");
    Files.delete(out);
  }

  private static List<Field> fields() {
    return Arrays.asList(new Field("x", Dtype.F32, Field.Role.INPUT, Tests.INPUTS),
        new Field("label", Dtype.I32, Field.Role.TARGET));
  }

  /** The samples of the oracle in their order, by memory and by a function: the trained file of the C++ API. */
  public static void dataSetsTrainToTheBytesOfTheCppApi() throws Exception {
    float[] all = floats("batches.f32");
    int[] labels = Tests.ints("labels.i32");
    for (boolean memory : new boolean[] {true, false}) {
      Path out = fresh("trained.graft");
      try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"))) {
        DataSet set = memory ? context.dataOf(fields(), labels.length, all.clone(), labels.clone())
                             : context.dataBy(fields(), labels.length, (index, places) -> {
                               places[0].asFloatBuffer().put(all, (int) index * Tests.INPUTS, Tests.INPUTS);
                               places[1].putInt(labels[(int) index]);
                               return true;
                             });
        equal((long) labels.length, set.samples(), "samples");
        equal("label", set.fields().get(1).name, "a field");
        equal(Field.Role.TARGET, set.fields().get(1).role, "its role");
        TrainerOptions options = Tests.trainerOptions();
        options.data = set;
        LoaderOptions order = new LoaderOptions();
        order.batch = Tests.SAMPLES;
        order.inOrder = true;
        order.epochs = 1;
        Trainer trainer = model.trainer(options);
        Loader loader = set.loader(order);
        set.close();  // the loader keeps it
        System.gc();
        int steps = 0;
        while (trainer.trainNext(loader) != null) steps++;
        equal(Tests.STEPS, steps, "steps");
        loader.close();
        trainer.store();
        trainer.close();
        model.save(out.toString());
      }
      equal(bytes("trained.graft"), Files.readAllBytes(out), memory ? "from memory" : "by a function");
      Files.delete(out);
    }
  }

  public static void batchesAndReadersThatFail() {
    try (Context context = Tests.context()) {
      DataSet set = context.dataOf(fields(), 4, Tests.direct(x(0)), labels(0));
      LoaderOptions order = new LoaderOptions();
      order.batch = 3;
      order.inOrder = true;
      order.epochs = 1;
      try (Loader loader = set.loader(order)) {
        Loader.Batch batch = loader.next();
        equal(3L, batch.samples, "samples");
        equal(x(0)[4], batch.fields.get(0).getFloat(16), "a number");
        check(loader.next().lastOfEpoch && loader.next() == null, "the end");
      }
      set.close();
      thrown(GraftException.InvalidArgument.class, "x", () -> context.dataOf(fields(), 3, x(0), labels(0)));
      DataSet failing = context.dataBy(fields(), 4, (index, places) -> {
        throw new java.io.IOException("no card");
      });
      thrown(java.io.IOException.class, "no card", () -> failing.loader(order));
      failing.close();
      thrown(GraftException.InvalidArgument.class, "", () -> context.openData("nonsense"));
    }
  }

  public static void weightsMetadataAndRates() {
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"))) {
      float[] weights = (float[]) model.read("fc1.weight");
      equal(30, weights.length, "numbers");
      weights[3] = 7;
      model.write("fc1.weight", weights);
      equal(7f, ((float[]) model.read("fc1.weight"))[3], "what was written");
      thrown(GraftException.NotFound.class, "", () -> model.read("nothing"));
      model.setMetadata("app", "mine");
      equal("mine", model.metadata().get("app"), "metadata");
      model.setMetadata("app", null);
      check(!model.metadata().containsKey("app"), "a key that was taken away");
      equal(Collections.emptyList(), model.signatures(), "signatures");
      TrainerOptions options = Tests.trainerOptions();
      options.groups.add(new ParameterGroup("fc1.*"));
      options.groups.get(0).learningRateScale = 0.5;
      options.groups.get(0).weightDecay = 0;
      List<Stage> stages = new ArrayList<>();
      context.setProgress((stage, done, total) -> stages.add(stage));
      try (Trainer trainer = model.trainer(options)) {
        thrown(IllegalStateException.class, "weights", () -> model.write("fc1.weight", weights));
        equal(0.05, trainer.learningRate(), "the rate");
        trainer.setLearningRate(0.01);
        equal(0.01, trainer.trainStep(x(0), labels(0)).learningRate, "another rate");
        check(stages.contains(Stage.SAMPLES), "no progress was told: " + stages);
        context.setProgress(null);
        trainer.write("fc1.weight", weights);
        equal(weights, trainer.read("fc1.weight"), "a trainer's weights");
        trainer.pause();
        trainer.resume();
      }
      try (Session session = model.session(Tests.fourSamples())) {
        session.pause();
        session.resume();
        session.setInput("x", x(0));
        session.run();
      }
    }
  }

  /** Bytes that stand for the numbers of the C++ API's outputs. */
  public static void takesBytesForNumbers() {
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"))) {
      InputFormat format = new InputFormat(Element.U8);
      format.scale = new float[] {0.5f};
      format.offset = new float[] {-1};
      SessionOptions asked = Tests.fourSamples();
      asked.inputs.put("x", format);
      byte[] raw = new byte[Tests.SAMPLES * Tests.INPUTS];
      float[] same = new float[raw.length];
      for (int i = 0; i < raw.length; i++) same[i] = 0.5f * (raw[i] = (byte) (i % 7)) - 1;
      ByteBuffer buffer = ByteBuffer.allocateDirect(raw.length).order(java.nio.ByteOrder.nativeOrder());
      buffer.put(raw).flip();
      float[] wanted;
      try (Session session = model.session(Tests.fourSamples())) {
        session.setInput("x", same);
        session.run();
        wanted = session.floats("y");
      }
      try (Session session = model.session(asked)) {
        session.setInput("x", buffer);
        session.run();
        equal(wanted, session.floats("y"), "the output");
      }
      TrainerOptions options = Tests.trainerOptions();
      options.inputs.put("x", format);
      double loss;
      try (Trainer trainer = model.trainer(Tests.trainerOptions())) {
        loss = trainer.trainStep(same, labels(0)).loss;
      }
      try (Trainer trainer = model.trainer(options)) {
        equal(loss, trainer.trainStep(new Batch(4).input(buffer).target(labels(0))).loss, "the loss");
        thrown(GraftException.InvalidArgument.class, "bytes of U8",
            () -> trainer.trainStep(new Batch(4).input(same).target(labels(0))));
      }
    }
  }

  public static void adaptersFromMemoryAndTogether() throws Exception {
    ByteBuffer bytes = ByteBuffer.allocateDirect((int) Files.size(Tests.folder.resolve("adapters.graft")));
    bytes.put(bytes("adapters.graft")).flip();
    Path out = fresh("adapters.graft");
    try (Context context = Tests.context(); Model model = context.load(file("letters.graft"))) {
      model.loadAdaptersFrom(bytes);
      model.saveAdapters(out.toString());
      equal(bytes("adapters.graft"), Files.readAllBytes(out), "adapters from memory");
      try (Generator generator = model.generator()) {
        String with = generator.generate("abc", GenerateTests.sampling(), null);
        generator.swapAdapters(null);
        generator.swapAdaptersFrom(bytes);
        equal(with, generator.generate("abc", GenerateTests.sampling(), null), "swapped in from memory");
        generator.pause();
        generator.resume();
      }
      Map<String, Double> both = new java.util.LinkedHashMap<>();
      both.put(file("adapters.graft"), 0.5);
      both.put(out.toString(), 0.25);
      model.loadAdaptersTogether(both);
      model.mergeAdapters(null);
    }
    Files.delete(out);
  }

  private MoreTests() {}

  public static void aHeadGetsClasses() {
    try (Context context = Tests.context(); Model model = context.load(file("mlp.graft"))) {
      HeadOptions options = new HeadOptions();
      options.seed = 3;
      options.output = "y";
      options.classes = 5;
      model.resizeHead(options);
      equal(5L, model.outputs().get(0).shape[1], "classes");
      thrown(GraftException.InvalidArgument.class, "5 classes, and 5 were asked for", () -> model.resizeHead(options));
      options.replace = true;
      options.classNames.add("owl");
      options.classNames.add("lynx");
      options.classes = 2;
      model.resizeHead(options);
      equal("[\"owl\",\"lynx\"]", model.metadata().get("data.classes"), "their names");
    }
  }

  public static void textsShowWhatIsInThem() {
    SessionOptions options = new SessionOptions();
    options.wrt.add("fc1.weight");
    check(options.toString().contains("wrt=[fc1.weight]"), options.toString());
    Context context = Tests.context();
    equal("Context", context.toString(), "an open context");
    Model model = context.load(file("mlp.graft"));
    String memory = model.forecast(Tests.trainerOptions()).toString();
    check(memory.startsWith("Forecast(weights="), memory);
    context.cancel();
    context.uncancel();
    Session session = model.session(Tests.fourSamples());
    session.setInput("x", x(0));
    session.run();
    model.close();
    equal("Model (closed)", model.toString(), "a closed model");
    session.close();
    context.close();
  }
}

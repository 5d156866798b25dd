package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** A loaded model. Threads and closing: see {@link Context}. */
public final class Model extends Handle implements Closeable {
  /** An entry point of the model: what it needs and what it gives; {@link SessionOptions#signature}. */
  public static final class EntryPoint extends Shown {
    @NonNull public final String name;
    @NonNull public final List<String> inputs;
    @NonNull public final List<String> outputs;

    private EntryPoint(long model, long index) {
      Signature signature = In.one(Jni.modelSignature(model, index), Signature::new);
      name = signature.name;
      inputs = Lists.of(signature.inputCount, i -> nameOf(model, index, TensorKind.INPUTS, i));
      outputs = Lists.of(signature.outputCount, i -> nameOf(model, index, TensorKind.OUTPUTS, i));
    }

    private static String nameOf(long model, long index, TensorKind kind, long tensor) {
      return In.one(Jni.modelSignatureTensor(model, index, kind.ordinal(), tensor), TensorInfo::new).name;
    }
  }

  Model(Owner context, long pointer) {
    own = context.child(this, pointer, "model", Jni::modelDestroy);
  }

  @NonNull
  public List<TensorInfo> inputs() {
    return tensors(TensorKind.INPUTS);
  }

  @NonNull
  public List<TensorInfo> outputs() {
    return tensors(TensorKind.OUTPUTS);
  }

  /** In the file's order, by fully qualified name. */
  @NonNull
  public List<TensorInfo> namedParameters() {
    return tensors(TensorKind.PARAMETERS);
  }

  /** Running statistics: training moves them. */
  @NonNull
  public List<TensorInfo> buffers() {
    return tensors(TensorKind.BUFFERS);
  }

  /** Weights that are not trained. */
  @NonNull
  public List<TensorInfo> constants() {
    return tensors(TensorKind.CONSTANTS);
  }

  /** Entry points beside all inputs and outputs together. */
  @NonNull
  public List<EntryPoint> signatures() {
    return own.call(p -> Lists.of(Jni.modelSignatureCount(p), i -> new EntryPoint(p, i)));
  }

  /** A parameter, a frozen weight or a running statistic, a float[] or an int[], row-major. */
  @NonNull
  public Object read(@NonNull String name) {
    return own.call(p -> View.read(room -> Jni.modelRead(p, name, room)));
  }

  /** Other numbers in its place, as for {@link Batch}. */
  public void write(@NonNull String name, @NonNull Object data) {
    Block block = Block.of(data, name);
    own.run(p -> {
      needNoChildren("weights");
      Jni.modelWrite(p, name, block);
    });
  }

  /** Keeps the names of the set's classes in the model, whose outputs stand for them from now on. */
  public void keepClasses(@NonNull DataSet set) {
    own.run(p -> Jni.modelKeepClasses(p, set.own.given(own)));
  }

  /** What the model's outputs stand for; empty where it does not say. */
  @NonNull
  public List<String> classes() {
    return own.call(p -> Lists.until(i -> Jni.modelClass(p, i)));
  }

  /** Texts by key, in the model's file. */
  @NonNull
  public Map<String, String> metadata() {
    return own.call(p -> {
      Map<String, String> all = new LinkedHashMap<>();
      for (long i = 0; i < Jni.modelMetadataCount(p); i++) {
        In in = new In(Jni.modelMetadataAt(p, i));
        all.put(in.text(), in.text());
      }
      return all;
    });
  }

  /** Null takes the key away. */
  public void setMetadata(@NonNull String key, @Nullable String value) {
    own.run(p -> Jni.modelSetMetadata(p, Objects.requireNonNull(key), value));
  }

  private List<TensorInfo> tensors(TensorKind kind) {
    return own.call(p -> Lists.of(Jni.modelCount(p, kind.ordinal()), i ->
        In.one(Jni.modelTensor(p, kind.ordinal(), i), TensorInfo::new).named(axis -> Jni.modelDimension(p, kind.ordinal(), i, axis))));
  }

  /** Writes the model atomically: on failure the file is as it was. */
  public void save(@NonNull String path) {
    own.run(p -> Jni.modelSave(p, path));
  }

  /** Plans and records the model once. */
  @NonNull
  public Session session(@NonNull SessionOptions options) {
    return own.call(p -> new Session(own, Jni.sessionCreate(p, options.packed(own))));
  }

  @NonNull
  public Trainer trainer(@NonNull TrainerOptions options) {
    return own.call(p -> new Trainer(own, Jni.trainerCreate(p, options.packed(own))));
  }

  /** What trainer(options) would take: in milliseconds, also without a device (ContextOptions.device = "none"). */
  @NonNull
  public Forecast forecast(@NonNull TrainerOptions options) {
    return In.one(own.call(p -> Jni.forecastTraining(p, options.packed(own))), Forecast::new);
  }

  /** In the order of the graph; dimensions without a binding have the model's own size, else 1. */
  @NonNull
  public List<Layer> layers(@NonNull Map<String, Long> bindings) {
    return In.all(own.call(p -> Jni.modelLayers(p, new Out(own).bindings(bindings).bytes())), Layer::new);
  }

  /** What session(options) would do on the context's device, or on one of another kind (caps, as in "adreno-7xx"). */
  @NonNull
  public Plan plan(@NonNull SessionOptions options, @Nullable String caps) {
    PlanOptions asked = new PlanOptions();
    asked.session = options;
    asked.caps = caps;
    return plan(asked);
  }

  /** What trainer(options) would do; curve: also memory against work. */
  @NonNull
  public Plan plan(@NonNull TrainerOptions options, @Nullable String caps, boolean curve) {
    PlanOptions asked = new PlanOptions();
    asked.training = options;
    asked.caps = caps;
    asked.curve = curve;
    return plan(asked);
  }

  /** What either would do. */
  @NonNull
  public Plan plan(@NonNull PlanOptions options) {
    return own.call(p -> new Plan(Jni.planCreate(p, options.packed(own))));
  }

  /** Reads all weights of the file; what is not as its checksums say. It needs no device. */
  @NonNull
  public List<Damage> findDamage() {
    return In.all(own.call(Jni::modelFindDamage), Damage::new);
  }

  /** Runs the model in double precision on random inputs, and each node on the device, forward and backward. */
  @NonNull
  public List<NodeVerdict> verify(@NonNull VerifyOptions options) {
    List<NodeVerdict> all = new ArrayList<>();
    for (In in = new In(own.call(p -> Jni.modelVerify(p, options.packed(own)))); in.hasMore();) all.add(new NodeVerdict(in));
    return all;
  }

  /**
   * Gradients of any number of samples, in micro-batches that keep to a budget. `inputs`: the model's inputs by name,
   * each as for {@link Batch}, and "cotangent" where options.of has more than one element.
   */
  @NonNull
  public Gradients gradients(@NonNull GradientOptions options, @NonNull Map<String, ?> inputs) {
    Block[] blocks = new Block[inputs.size()];
    int i = 0;
    for (Map.Entry<String, ?> input : inputs.entrySet()) blocks[i++] = Block.of(input.getValue(), input.getKey());
    return own.call(p -> new Gradients(own,
        Jni.gradientsCompute(p, options.packed(own), new Out(own).texts(inputs.keySet()).bytes(), blocks)));
  }

  @NonNull
  public Generator generator() {
    return generator(new GeneratorOptions());
  }

  /** Throws Unsupported where the model is no language model that can go on token by token. */
  @NonNull
  public Generator generator(@NonNull GeneratorOptions options) {
    return own.call(p -> new Generator(own, Jni.generatorCreate(p, options.packed(own))));
  }

  /** For language models and encoders of texts. */
  @NonNull
  public Embedder embedder(@NonNull EmbedderOptions options) {
    return own.call(p -> new Embedder(own, Jni.embedderCreate(p, options.packed(own))));
  }

  /** For causal language models: plans one chunk of texts. */
  @NonNull
  public Importance importance(@NonNull ImportanceOptions options) {
    return own.call(p -> new Importance(own, Jni.importanceCreate(p, options.packed(own))));
  }

  /** Of these weights, on all samples of a set that has no loader; options.training: the loss, the batch, bindings, the precision. */
  @NonNull
  public Evaluation evaluation(@NonNull DataSet data, @NonNull EvaluationOptions options) {
    return own.call(p -> new Evaluation(own, Jni.evaluateModel(p, data.own.given(own), options.packed(own))));
  }

  /**
   * Whether this model may replace an old one, null: there is none. All conditions must hold, and each of their metrics be at most
   * options.margin worse than the old model's. With a path it is then saved: there where it passed, else beside it with ".rejected"
   * before the ending.
   */
  @NonNull
  public GateResult gate(@NonNull DataSet data, @Nullable Model old, @NonNull GateOptions options, @Nullable String path) {
    return own.call(p -> In.one(Jni.gate(p, old == null ? 0 : old.own.given(own), data.own.given(own), options.packed(own), path),
        GateResult::new));
  }

  /** These weights less those of `base`, a model of the same graph; where these have adapters, the adapters. */
  @NonNull
  public Delta deltaFrom(@NonNull Model base, @NonNull DeltaOptions options) {
    return own.call(p -> new Delta(own.root(), Jni.deltaMake(base.own.given(own), p, options.packed(own))));
  }

  /** How the model's text becomes tokens; NotFound where it carries no tokenizer. */
  @NonNull
  public Tokenizer tokenizer() {
    return own.call(p -> new Tokenizer(own, Jni.tokenizerCreate(p)));
  }

  /**
   * Fresh low-rank adapters, which replace those that the model has: "r=8,alpha=16,dropout=0,targets=q_proj|v_proj", any
   * part may be left out. Tokens of {@link #addTokens} keep their rows. All else is frozen then. Adapters change while nothing made from this model is open.
   */
  public void addAdapters(@NonNull String options, int seed) {
    own.run(p -> {
      needNoChildren();
      Jni.modelAddAdapters(p, options, seed);
    });
  }

  /**
   * Adds tokens to the vocabulary: a JSON array of texts, or of {"content": text, "special": true}. Their rows are
   * trained, and adapters with them. Adapters and tokens of earlier calls, and all other rows, keep their bits.
   */
  public void addTokens(@NonNull String tokens) {
    own.run(p -> {
      needNoChildren();
      Jni.modelAddTokens(p, tokens);
    });
  }

  /**
   * Another number of classes for the last layer. Old rows keep their bits, and new ones begin as in PyTorch. A run of
   * the model before can be continued by its checkpoint. Nothing made from this model may be open.
   */
  public void resizeHead(@NonNull HeadOptions options) {
    own.run(p -> {
      needNoChildren();
      Jni.modelResizeHead(p, options.packed(own));
    });
  }

  /** The adapters of a file in place of any; null: none. */
  public void loadAdapters(@Nullable String path) {
    own.run(p -> {
      needNoChildren();
      Jni.modelLoadAdapters(p, path);
    });
  }

  /** The same from memory: the bytes of a direct buffer from position to limit. */
  public void loadAdaptersFrom(@NonNull ByteBuffer file) {
    Block block = Block.ofBytes(file);
    own.run(p -> {
      needNoChildren();
      Jni.modelLoadAdaptersSource(p, block, 0, 0, 0);
    });
  }

  /** Several files' adapters at once, by path, each with the weight that its product is multiplied by. */
  public void loadAdaptersTogether(@NonNull Map<String, Double> weights) {
    double[] factors = weights.values().stream().mapToDouble(Double::doubleValue).toArray();
    own.run(p -> {
      needNoChildren();
      Jni.modelLoadAdaptersTogether(p, new Out(own).texts(weights.keySet()).bytes(), new Out(own).array(factors).bytes());
    });
  }

  /**
   * Adds the adapters' product to the weights: from then on there are none, and {@link #save} writes an ordinary model. Merged
   * matrices become blocks of the format "quantize" ("q8_0", ...), frozen; null: F32.
   */
  public void mergeAdapters(@Nullable String quantize) {
    own.run(p -> {
      needNoChildren();
      Jni.modelMergeAdapters(p, quantize);
    });
  }

  /** Writes the adapters alone, atomically. */
  public void saveAdapters(@NonNull String path) {
    own.run(p -> Jni.modelSaveAdapters(p, path));
  }

  private void needNoChildren() {
    needNoChildren("adapters");
  }

  void needNoChildren(String what) {
    if (!own.hasChildren()) return;
    throw new IllegalStateException(
        "A model's " + what + " change only while it has no sessions, trainers or generators; close them first.");
  }

  @Override
  public void close() {
    own.close();
  }
}

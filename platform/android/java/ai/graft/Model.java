package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

/** A loaded model. Threads and closing: see {@link Context}. */
public final class Model extends Handle implements Closeable {
  /** An entry point of the model: what it needs and what it gives; {@link Session.Options#signature}. */
  public static final class Signature extends Shown {
    @NonNull public final String name;
    @NonNull public final List<String> inputs = new ArrayList<>();
    @NonNull public final List<String> outputs = new ArrayList<>();

    Signature(Record record) {
      name = record.text();
      int in = record.count();
      int out = record.count();
      for (int i = 0; i < in; i++) inputs.add(record.text());
      for (int i = 0; i < out; i++) outputs.add(record.text());
    }
  }

  /** Bytes of a weight that are not what the file's checksums say. */
  public static final class Damage extends Shown {
    @NonNull public final String weight;
    /** In the file. */
    public final long firstByte;
    public final long lastByte;

    Damage(Record record) {
      weight = record.text();
      firstByte = record.number();
      lastByte = record.number();
    }
  }

  /** What became of one node that was compared with double precision. */
  public static final class NodeVerdict extends Shown {
    @NonNull public final String node;
    @NonNull public final String op;
    /** Why it could not be compared; "" where it was. */
    @NonNull public final String failure;
    public final boolean passed;
    /** Largest difference over the outputs' root mean square. */
    public final double forward;
    /** The same of gradients; -1: the op has none. */
    public final double gradient;

    NodeVerdict(Record record) {
      node = record.text();
      op = record.text();
      failure = record.text();
      passed = record.flag();
      forward = record.real();
      gradient = record.real();
    }
  }

  Model(Owner context, long pointer) {
    own = context.child(this, pointer, "model", Jni::modelDestroy);
  }

  @NonNull
  public List<TensorInfo> inputs() {
    return tensors(0);
  }

  @NonNull
  public List<TensorInfo> outputs() {
    return tensors(1);
  }

  /** In the file's order, by fully qualified name. */
  @NonNull
  public List<TensorInfo> namedParameters() {
    return tensors(2);
  }

  /** Running statistics: training moves them. */
  @NonNull
  public List<TensorInfo> buffers() {
    return tensors(3);
  }

  /** Weights that are not trained. */
  @NonNull
  public List<TensorInfo> constants() {
    return tensors(4);
  }

  /** Entry points beside all inputs and outputs together. */
  @NonNull
  public List<Signature> signatures() {
    List<Signature> all = new ArrayList<>();
    for (Record record : own.call(Jni::signatures)) all.add(new Signature(record));
    return all;
  }

  /** A parameter, a frozen weight or a running statistic, a float[] or an int[], row-major. */
  @NonNull
  public Object read(@NonNull String name) {
    return own.call(p -> Jni.modelRead(p, name));
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
    own.run(p -> Jni.keepClasses(p, set.own.given(own)));
  }

  /** What the model's outputs stand for; empty where it does not say. */
  @NonNull
  public List<String> classes() {
    return Arrays.asList(own.call(Jni::modelClasses));
  }

  /** Texts by key, in the model's file. */
  @NonNull
  public Map<String, String> metadata() {
    Record record = own.call(Jni::metadata);
    Map<String, String> all = new LinkedHashMap<>();
    while (record.hasText()) {
      String key = record.text();
      all.put(key, record.text());
    }
    return all;
  }

  /** Null takes the key away. */
  public void setMetadata(@NonNull String key, @Nullable String value) {
    own.run(p -> Jni.setMetadata(p, Objects.requireNonNull(key), value));
  }

  /** Numbered as graft_tensor_kind. */
  private List<TensorInfo> tensors(int kind) {
    return Collections.unmodifiableList(Arrays.asList(own.call(p -> Jni.modelTensors(p, kind))));
  }

  /** Writes the model atomically: on failure the file is as it was. */
  public void save(@NonNull String path) {
    own.run(p -> Jni.modelSave(p, path));
  }

  /** Plans and records the model once. */
  @NonNull
  public Session session(@NonNull Session.Options options) {
    return own.call(p -> new Session(own, Jni.sessionCreate(p, options, Lists.of(options))));
  }

  @NonNull
  public Trainer trainer(@NonNull TrainerOptions options) {
    return own.call(p -> new Trainer(own, Jni.trainerCreate(p, options, Lists.of(options, own))));
  }

  /** What trainer(options) would take: in milliseconds, also without a device (Context.Options.device = "none"). */
  @NonNull
  public Forecast forecast(@NonNull TrainerOptions options) {
    return own.call(p -> Jni.forecast(p, options, Lists.of(options, own)));
  }

  /** In the order of the graph; dimensions without a binding have the model's own size, else 1. */
  @NonNull
  public List<Plan.Layer> layers(@NonNull Map<String, Long> bindings) {
    List<Plan.Layer> all = new ArrayList<>();
    for (Record record : own.call(p -> Jni.layers(p, new Lists(bindings)))) all.add(new Plan.Layer(record));
    return all;
  }

  /** What session(options) would do on the context's device, or on one of another kind (caps, as in "adreno-7xx"). */
  @NonNull
  public Plan plan(@NonNull Session.Options options, @Nullable String caps) {
    return own.call(p -> new Plan(Jni.planCreate(p, null, options, Lists.of(options), caps, false)));
  }

  /** What trainer(options) would do; curve: also memory against work. */
  @NonNull
  public Plan plan(@NonNull TrainerOptions options, @Nullable String caps, boolean curve) {
    return own.call(p -> new Plan(Jni.planCreate(p, options, null, Lists.of(options, own), caps, curve)));
  }

  /** Reads all weights of the file; what is not as its checksums say. It needs no device. */
  @NonNull
  public List<Damage> findDamage() {
    List<Damage> all = new ArrayList<>();
    for (Record record : own.call(Jni::findDamage)) all.add(new Damage(record));
    return all;
  }

  /**
   * Runs the model in double precision on random inputs of this seed, and each node on the device, forward and backward. tolerance:
   * largest error over the root mean square, as in 1e-4.
   */
  @NonNull
  public List<NodeVerdict> verify(@NonNull Map<String, Long> bindings, long seed, double tolerance) {
    List<NodeVerdict> all = new ArrayList<>();
    for (Record record : own.call(p -> Jni.verify(p, new Lists(bindings), seed, tolerance))) all.add(new NodeVerdict(record));
    return all;
  }

  /**
   * Gradients of any number of samples, in micro-batches that keep to a budget. `inputs`: the model's inputs by name,
   * each as for {@link Batch}, and "cotangent" where options.of has more than one element.
   */
  @NonNull
  public Gradients gradients(@NonNull Gradients.Options options, @NonNull Map<String, ?> inputs) {
    Block[] blocks = new Block[inputs.size()];
    int i = 0;
    for (Map.Entry<String, ?> input : inputs.entrySet()) blocks[i++] = Block.of(input.getValue(), input.getKey());
    return own.call(p -> new Gradients(own, Jni.gradientsCompute(p, options, Names.of(options.wrt),
        Names.of(options.bindings), Names.sizes(options.bindings), Names.of(inputs), blocks)));
  }

  @NonNull
  public Generator generator() {
    return generator(new Generator.Options());
  }

  /** Throws Unsupported where the model is no language model that can go on token by token. */
  @NonNull
  public Generator generator(@NonNull Generator.Options options) {
    return own.call(p -> new Generator(own, Jni.generatorCreate(p, options)));
  }

  /** For language models and encoders of texts. */
  @NonNull
  public Embedder embedder(@NonNull Embedder.Options options) {
    return own.call(p -> new Embedder(own, Jni.embedderCreate(p, options)));
  }

  /** For causal language models: plans one chunk of texts. */
  @NonNull
  public Importance importance(@NonNull Importance.Options options) {
    return own.call(p -> new Importance(own, Jni.importanceCreate(p, options)));
  }

  /** Of these weights, on all samples of a set that has no loader; training: the loss, the batch, bindings, the precision. */
  @NonNull
  public Evaluation evaluation(
      @NonNull DataSet data, @NonNull Evaluation.Options options, @NonNull TrainerOptions training) {
    return own.call(p -> new Evaluation(own,
        Jni.evaluateModel(p, data.own.given(own), options, training, Lists.of(training, own))));
  }

  /**
   * Whether this model may replace an old one, null: there is none. conditions, as in "accuracy>=0.9,loss<=0.5", must all hold, and
   * each of these metrics be at most `margin` worse than the old model's. With a path it is then saved: there where it passed, else
   * beside it with ".rejected" before the ending.
   */
  @NonNull
  public Evaluation.Gated gate(@NonNull DataSet data, @NonNull String conditions, @Nullable Model old, double margin,
      @NonNull TrainerOptions training, @Nullable String path) {
    long[][] lists = new long[3][];
    return own.call(p -> new Evaluation.Gated(Jni.gate(p, old == null ? 0 : old.own.given(own), data.own.given(own), conditions,
        margin, training, Lists.of(training, own), path, lists), lists));
  }

  /** These weights less those of `base`, a model of the same graph; where these have adapters, the adapters. */
  @NonNull
  public Delta deltaFrom(@NonNull Model base, @NonNull Delta.Options options) {
    return own.call(p -> new Delta(own.root(), Jni.deltaMake(base.own.given(own), p, options)));
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
      Jni.addAdapters(p, options, seed);
    });
  }

  /**
   * Adds tokens to the vocabulary: a JSON array of texts, or of {"content": text, "special": true}. Their rows are
   * trained, and adapters with them. Adapters and tokens of earlier calls, and all other rows, keep their bits.
   */
  public void addTokens(@NonNull String tokens) {
    own.run(p -> {
      needNoChildren();
      Jni.addTokens(p, tokens);
    });
  }

  /** How {@link #resizeHead} changes a head. */
  public static final class HeadOptions extends Shown {
    /** The output of the classes; null: the model's only one. */
    @Nullable public String output;
    /** All rows begin anew, and there may be fewer; else old rows keep their bits. */
    public boolean replace;
    /** Of new rows. */
    public int seed;
    /** Of the new classes (replace: of all), for a model that knows its classes by names. */
    @NonNull public final List<String> classNames = new ArrayList<>();
  }

  /**
   * Another number of classes for the last layer. Old rows keep their bits, and new ones begin as in PyTorch. A run of
   * the model before can be continued by its checkpoint. Nothing made from this model may be open.
   */
  public void resizeHead(long classes, @NonNull HeadOptions options) {
    own.run(p -> {
      needNoChildren();
      Jni.resizeHead(p, classes, options, options.classNames.toArray(new String[0]));
    });
  }

  /** The adapters of a file in place of any; null: none. */
  public void loadAdapters(@Nullable String path) {
    own.run(p -> {
      needNoChildren();
      Jni.loadAdapters(p, path);
    });
  }

  /** The same from memory: the bytes of a direct buffer from position to limit. */
  public void loadAdaptersFrom(@NonNull ByteBuffer file) {
    Block block = Block.ofBytes(file);
    own.run(p -> {
      needNoChildren();
      Jni.loadAdaptersMemory(p, block);
    });
  }

  /** Several files' adapters at once, by path, each with the weight that its product is multiplied by. */
  public void loadAdaptersTogether(@NonNull Map<String, Double> weights) {
    double[] factors = weights.values().stream().mapToDouble(Double::doubleValue).toArray();
    own.run(p -> {
      needNoChildren();
      Jni.loadAdaptersTogether(p, Names.of(weights), factors);
    });
  }

  /**
   * Adds the adapters' product to the weights: from then on there are none, and {@link #save} writes an ordinary model. Merged
   * matrices become blocks of the format "quantize" ("q8_0", ...), frozen; null: F32.
   */
  public void mergeAdapters(@Nullable String quantize) {
    own.run(p -> {
      needNoChildren();
      Jni.mergeAdapters(p, quantize);
    });
  }

  /** Writes the adapters alone, atomically. */
  public void saveAdapters(@NonNull String path) {
    own.run(p -> Jni.saveAdapters(p, path));
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

package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;

/** A loaded model. Threads and closing: see {@link Context}. */
public final class Model implements Closeable {
  private final Owner own;

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
    return own.call(p -> new Session(own, Jni.sessionCreate(p, options, Names.of(options.bindings),
        Names.sizes(options.bindings), Names.of(options.wrt), Names.of(options.fetch))));
  }

  @NonNull
  public Trainer trainer(@NonNull TrainerOptions options) {
    return own.call(p -> new Trainer(own, Jni.trainerCreate(p, options, options.fetched(), Names.of(options.bindings),
        Names.sizes(options.bindings))));
  }

  /** What trainer(options) would take: in milliseconds, also without a device (Context.Options.device = "none"). */
  @NonNull
  public Forecast forecast(@NonNull TrainerOptions options) {
    return own.call(p -> Jni.forecast(p, options, options.fetched(), Names.of(options.bindings),
        Names.sizes(options.bindings)));
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

  /** How the model's text becomes tokens; NotFound where it carries no tokenizer. */
  @NonNull
  public Tokenizer tokenizer() {
    return own.call(p -> new Tokenizer(own, Jni.tokenizerCreate(p)));
  }

  /**
   * Fresh low-rank adapters in place of any: "r=8,alpha=16,dropout=0,targets=q_proj|v_proj", any part may be left out.
   * All else is frozen then. Adapters change while nothing made from this model is open.
   */
  public void addAdapters(@NonNull String options, int seed) {
    own.run(p -> {
      needNoChildren();
      Jni.addAdapters(p, options, seed);
    });
  }

  /**
   * Tokens for the vocabulary in place of any adapters: a JSON array of texts, or of {"content": text, "special": true}.
   * Their rows are trained, with adapters that are added next; all other rows stay.
   */
  public void addTokens(@NonNull String tokens) {
    own.run(p -> {
      needNoChildren();
      Jni.addTokens(p, tokens);
    });
  }

  /** The adapters of a file in place of any; null: none. */
  public void loadAdapters(@Nullable String path) {
    own.run(p -> {
      needNoChildren();
      Jni.loadAdapters(p, path);
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
    if (!own.hasChildren()) return;
    throw new IllegalStateException(
        "A model's adapters change only while it has no sessions, trainers or generators; close them first.");
  }

  @Override
  public void close() {
    own.close();
  }
}

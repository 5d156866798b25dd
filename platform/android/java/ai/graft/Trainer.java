package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** Trains a model; one call, one optimizer step. Threads and closing: see {@link Context}. */
public final class Trainer extends Handle implements Closeable {
  private final TensorInfo[] parts;

  Trainer(Owner model, long pointer) {
    own = model.child(this, pointer, "trainer", Jni::trainerDestroy);
    parts = Lists.until(i -> In.one(Jni.trainerSample(pointer, i), TensorInfo::new)).toArray(new TensorInfo[0]);
  }

  /**
   * What one sample consists of: the model's inputs in order, targets but the last, and last the target, if the loss has
   * one; shapes without the batch.
   */
  @NonNull
  public List<TensorInfo> sample() {
    return Collections.unmodifiableList(Arrays.asList(parts));
  }

  /** One step on at most TrainerOptions.batch samples. After an exception, the same samples go on where it stopped. */
  @NonNull
  public Metrics trainStep(@NonNull Batch batch) {
    Block[] blocks = batch.blocks(parts);
    return In.one(
        own.call(p -> Jni.trainStep(p, Batch.inputs(blocks), Batch.target(blocks), batch.samples())), Metrics::new);
  }

  /** For a model of one input and a classifier's labels, one a sample. */
  @NonNull
  public Metrics trainStep(@NonNull float[] input, @NonNull int[] labels) {
    return trainStep(new Batch(labels.length).input(input).target(labels));
  }

  /**
   * One micro-batch of the same, and with the last one the update: null until then. Give the same samples again. For an
   * app that may be suspended at any time.
   */
  @Nullable
  public Metrics microStep(@NonNull Batch batch) {
    Block[] blocks = batch.blocks(parts);
    return own.call(p -> perhaps(Jni.trainMicroStep(p, Batch.inputs(blocks), Batch.target(blocks), batch.samples())));
  }

  /**
   * One step on the loader's next batch, by a trainer that was made for its set ({@link TrainerOptions#data}); null: the epochs are
   * over. After an exception, ask again.
   */
  @Nullable
  public Metrics trainNext(@NonNull Loader loader) {
    return own.call(p -> perhaps(Jni.trainNext(p, loader.own.given(own))));
  }

  /** Whether there are metrics, and they. */
  private static Metrics perhaps(byte[] packed) {
    In in = new In(packed);
    return in.flag() ? new Metrics(in) : null;
  }

  /** Of the weights as they are now. More than the loss and the accuracy needs {@link TrainerOptions#predictions}. */
  @NonNull
  public Evaluation evaluation(@NonNull DataSet data, @NonNull EvaluationOptions options) {
    return own.call(p -> new Evaluation(own, Jni.evaluateTrainer(p, data.own.given(own), options.packed(own))));
  }

  /** Notes an evaluation of the weights as they are now, which becomes part of the run's state. Between two steps. */
  @NonNull
  public Verdict observe(@NonNull Evaluation evaluation, @NonNull WatchOptions watch) {
    return own.call(p -> In.one(Jni.trainerObserve(p, evaluation.own.given(own), watch.packed(own)), Verdict::new));
  }

  /** Loss and accuracy on all samples of a set that has no loader. */
  @NonNull
  public Metrics evaluate(@NonNull DataSet data) {
    return own.call(p -> In.one(Jni.evaluateData(p, data.own.given(own)), Metrics::new));
  }

  /** Loss and accuracy without training: dropout off, running statistics used. Any number of samples. */
  @NonNull
  public Metrics evaluate(@NonNull Batch batch) {
    Block[] blocks = batch.blocks(parts);
    return In.one(
        own.call(p -> Jni.evaluate(p, Batch.inputs(blocks), Batch.target(blocks), batch.samples())), Metrics::new);
  }

  @NonNull
  public Metrics evaluate(@NonNull float[] input, @NonNull int[] labels) {
    return evaluate(new Batch(labels.length).input(input).target(labels));
  }

  /** A copy of a value of TrainerOptions.fetch as the last step computed it, for all its samples. */
  @NonNull
  public float[] fetch(@NonNull String name) {
    return own.call(p -> View.floats(new In(Jni.trainerFetch(p, name)).view()));
  }

  /** Copies the trained parameters into the model, for {@link Model#save} and for new sessions. */
  public void store() {
    own.run(Jni::trainerStore);
  }

  /** The same with the running means of the parameters (TrainerOptions.ema), which evaluations are of. */
  public void storeEma() {
    own.run(Jni::trainerStoreEma);
  }

  @NonNull
  public Memory memory() {
    return In.one(own.call(Jni::trainerMemory), Memory::new);
  }

  /** Between two steps: plans anew for another budget in bytes (0: none); the run goes on where it is. */
  public void setBudget(long bytes) {
    own.run(p -> Jni.trainerSetBudget(p, bytes));
  }

  /** The same for a budget that gives so many bytes back: for onTrimMemory. */
  public void trim(long bytes) {
    own.run(p -> Jni.trainerTrim(p, bytes));
  }

  /**
   * Gives all device memory back, in the middle of a step too: for when the app goes to the background. The next call
   * that needs it builds everything again, and the run goes on to the same bits.
   */
  public void pause() {
    own.run(Jni::trainerPause);
  }

  /** Nothing to do where it is not paused. OutOfMemory where the device has not the memory now: ask again. */
  public void resume() {
    own.run(Jni::trainerResume);
  }

  /** As it is now, before schedule and groups. */
  public double learningRate() {
    return own.call(Jni::trainerLearningRate);
  }

  /** From the next step on. Between two steps. */
  public void setLearningRate(double rate) {
    own.run(p -> Jni.trainerSetLearningRate(p, rate));
  }

  /** A parameter as training has made it so far, a float[] or an int[], row-major. */
  @NonNull
  public Object read(@NonNull String name) {
    return own.call(p -> View.read(room -> Jni.trainerRead(p, name, room)));
  }

  /** Between two steps: other numbers in its place, as for {@link Batch}. The optimizer's state stays. */
  public void write(@NonNull String name, @NonNull Object data) {
    Block block = Block.of(data, name);
    own.run(p -> Jni.trainerWrite(p, name, block));
  }

  /** How often the device was short of memory and training went on by itself with another plan. */
  public long shortages() {
    return own.call(Jni::trainerShortages);
  }

  /** Keeps the run in a folder from now on, and with resume goes on from what is there. */
  @NonNull
  public CheckpointInfo openCheckpoint(@NonNull CheckpointOptions options) {
    return own.call(p -> {
      long callbacks = Callbacks.create(Callbacks.of(own.gate, options.cipher));
      CheckpointInfo opened = null;
      try {
        opened = In.one(Jni.checkpointOpen(p, options.packed(own), callbacks), CheckpointInfo::new);
      } finally {
        if (opened == null) Jni.callbacksDestroy(callbacks);
      }
      own.keep(callbacks);
      return opened;
    });
  }

  /** A snapshot of now: on storage when it returns. */
  public void saveCheckpoint() {
    saveCheckpoint(null);
  }

  /** A tagged snapshot stays until it is pruned. */
  public void saveCheckpoint(@Nullable String tag) {
    own.run(p -> Jni.checkpointSave(p, tag));
  }

  /** Waits until all is on storage and closes the folder. Takes no snapshot. */
  public void closeCheckpoint() {
    own.run(Jni::checkpointClose);
  }

  /** Bytes of the app's own in each further snapshot (its place in the data, say). */
  public void setCheckpointData(@NonNull byte[] data) {
    setCheckpointData(0, data);
  }

  /** The same of one worker; 0: what all share. */
  public void setCheckpointData(int worker, @NonNull byte[] data) {
    Block block = Block.ofBytes(data);
    own.run(p -> Jni.checkpointSetData(p, worker, block));
  }

  /** What was set, or saved with the snapshot that was resumed; null where nothing was. */
  @Nullable
  public byte[] checkpointData() {
    return checkpointData(0);
  }

  @Nullable
  public byte[] checkpointData(int worker) {
    return own.call(p -> {
      try {
        return View.bytes(new In(Jni.checkpointData(p, worker)).view());
      } catch (GraftException.NotFound e) {
        return null;
      }
    });
  }

  /** A new run from old weights: a snapshot's (number or tag; null: the newest) parameters, no optimizer state. */
  public void warmStart(@NonNull String folder, @Nullable String snapshot, @Nullable Cipher cipher) {
    own.run(p -> Callbacks.during(Callbacks.of(own.gate, cipher), callbacks -> {
      Jni.warmStart(p, folder, snapshot, callbacks);
      return null;
    }));
  }

  @Override
  public void close() {
    own.close();
  }
}

package ai.graft;

import java.nio.ByteBuffer;

/** The native methods, in the order of graft's headers. Failures are thrown as GraftException. */
final class Jni {
  static {
    System.loadLibrary("graft_jni");
  }

  static native String version();

  /** Native memory that calls back; 0 for null. */
  static native long callbacksCreate(Callbacks callbacks);
  static native void callbacksDestroy(long callbacks);

  static native long contextCreate(Context.Options options, long callbacks);
  static native void contextDestroy(long context);
  static native String deviceName(long context);
  static native void cancel(long context);

  static native void uncancel(long context);
  static native boolean setPace(long context, double sliceMs, double duty);
  static native void openCache(long context, String folder, boolean skipSelfTest);

  static native void setProgress(long context, long callbacks);

  static native long modelLoad(long context, String path, int check, boolean allowNonFinite);
  static native long modelLoadDescriptor(long context, String name, int descriptor, long offset, long bytes, int check,
      boolean allowNonFinite);
  static native long modelLoadMemory(long context, String name, Block data, int check, boolean allowNonFinite);
  static native void modelDestroy(long model);
  static native void modelSave(long model, String path);
  static native TensorInfo[] modelTensors(long model, int kind);
  static native Object modelRead(long model, String name);
  static native void modelWrite(long model, String name, Block data);
  static native Record metadata(long model);
  static native void setMetadata(long model, String key, String value);
  static native Record[] signatures(long model);
  static native void addAdapters(long model, String options, int seed);
  static native void addTokens(long model, String tokens);
  static native void resizeHead(long model, long classes, Model.HeadOptions options, String[] classNames);
  static native void loadAdapters(long model, String path);
  static native void loadAdaptersMemory(long model, Block data);
  static native void loadAdaptersTogether(long model, String[] paths, double[] weights);
  static native void saveAdapters(long model, String path);

  static native void mergeAdapters(long model, String quantize);

  static native long sessionCreate(long model, Session.Options options, Lists lists);
  static native void sessionDestroy(long session);
  static native long[] sessionMemory(long session);
  static native void setInput(long session, String name, Block data);
  static native void sessionRun(long session);
  static native void sessionResize(long session, String[] dimensions, long[] sizes);
  static native void sessionPause(long session);
  static native void sessionResume(long session);
  static native void sessionSwapSource(long session, Block data);
  static native ByteBuffer sessionOutput(long session, String name);
  static native TensorInfo sessionOutputInfo(long session, String name);
  static native void sessionSwapAdapters(long session, String path);

  static native long gradientsCompute(long model, Gradients.Options options, String[] wrt, String[] dimensions,
      long[] sizes, String[] inputs, Block[] data);
  static native void gradientsDestroy(long gradients);
  static native ByteBuffer gradientsGet(long gradients, String wrt);
  static native TensorInfo gradientsInfo(long gradients, String wrt);

  static native long generatorCreate(long model, Generator.Options options);
  static native void generatorDestroy(long generator);
  static native long[] generatorMemory(long generator);
  static native void generatorPause(long generator);
  static native void generatorResume(long generator);
  static native void generate(long generator, String prompt, Generator.Sampling sampling, Lists lists,
      Callbacks callbacks, boolean tokens);
  static native void generateTokens(long generator, int[] prompt, Generator.Sampling sampling, Lists lists,
      Callbacks callbacks, boolean tokens);
  static native long submit(long generator, String prompt, Generator.Sampling sampling, Lists lists, long callbacks,
      boolean tokens);
  static native long submitTokens(long generator, int[] prompt, Generator.Sampling sampling, Lists lists, long callbacks,
      boolean tokens);
  static native long generatorStep(long generator);
  static native Generator.Generated finished(long generator, long[] id);
  static native void drop(long generator, long id);
  static native void generatorSwapSource(long generator, Block data);
  static native Generator.Generated generated(long generator);
  static native void generatorSwapAdapters(long generator, String path);

  static native long tokenizerCreate(long model);
  static native void tokenizerDestroy(long tokenizer);
  static native int tokenizerSize(long tokenizer);
  static native int tokenizerFind(long tokenizer, String token);
  static native int[] encode(long tokenizer, String text, boolean bare, boolean parseSpecial);
  static native String decode(long tokenizer, int[] tokens, boolean spellSpecial, boolean continued);
  static native int[] chatEncode(long tokenizer, String[] roles, String[] texts, Tokenizer.ChatOptions options);
  static native String chatRender(long tokenizer, String[] roles, String[] texts, Tokenizer.ChatOptions options);

  static native Forecast forecast(long model, TrainerOptions options, Lists lists);
  static native long trainerCreate(long model, TrainerOptions options, Lists lists);
  static native void trainerDestroy(long trainer);
  static native TensorInfo[] trainerSample(long trainer);
  static native long[] trainerMemory(long trainer);
  static native Metrics trainStep(long trainer, Block[] data, int samples);
  static native Metrics microStep(long trainer, Block[] data, int samples);
  static native Metrics evaluate(long trainer, Block[] data, int samples);
  static native ByteBuffer fetch(long trainer, String name);
  static native void store(long trainer);
  static native void storeEma(long trainer);
  static native void setBudget(long trainer, long bytes);
  static native void pause(long trainer);
  static native void trainerResume(long trainer);
  static native double learningRate(long trainer);
  static native void setLearningRate(long trainer, double rate);
  static native Object trainerRead(long trainer, String name);
  static native void trainerWrite(long trainer, String name, Block data);
  static native void trim(long trainer, long bytes);
  static native long shortages(long trainer);

  static native Checkpoint openCheckpoint(long trainer, Checkpoint.Options options, String[] keys, String[] values,
      long callbacks, long loader);
  static native void saveCheckpoint(long trainer, String tag);
  static native void closeCheckpoint(long trainer);
  static native void setCheckpointData(long trainer, int worker, byte[] data);
  static native byte[] checkpointData(long trainer, int worker);
  static native void warmStart(long trainer, String folder, String snapshot, long callbacks);

  static native long dataOpen(long context, String spec);
  static native long dataOpenWith(long context, String spec, DataSet.Options options, long model);
  static native long dataFromMemory(long context, DataSet.Parts parts, Block[] data, long samples);
  static native long dataFromReader(long context, DataSet.Parts parts, long samples, long callbacks);
  static native void dataDestroy(long set);
  static native long dataSamples(long set);
  static native Record[] dataFields(long set);
  static native void dataAddReference(long set, long model, int batch);
  static native void keepClasses(long model, long set);
  static native String[] modelClasses(long model);
  static native long loaderCreate(long set, Loader.Options options);
  static native void loaderDestroy(long loader);
  static native Record loaderNext(long loader);
  static native ByteBuffer[] loaderFields(long loader);
  static native Metrics trainNext(long trainer, long loader);
  static native Metrics evaluateData(long trainer, long set);

  static native String metricNames();
  static native long evaluateModel(long model, long set, Evaluation.Options options, TrainerOptions training, Lists lists);
  static native long evaluateTrainer(long trainer, long set, Evaluation.Options options);
  static native void evaluationDestroy(long evaluation);
  static native Record evaluationTotals(long evaluation);
  static native Record[] evaluationMetrics(long evaluation);
  static native long[] evaluationConfusion(long evaluation);
  static native Record evaluationsCompare(long evaluation, long before, long[][] samples);
  static native Record observe(long trainer, long evaluation, Evaluation.Watch watch);
  static native Record gate(long model, long old, long set, String conditions, double margin, TrainerOptions training,
      Lists lists, String path, long[][] samples);

  static native long deltaMake(long base, long updated, Delta.Options options);
  static native long deltaLoad(long context, String path);
  static native long deltaLoadBytes(long context, byte[] file);
  static native long deltaAverage(long context, long[] deltas, Delta.AverageOptions options);
  static native void deltaDestroy(long delta);
  static native void deltaSave(long delta, String path);
  static native byte[] deltaBytes(long delta);
  static native Record deltaDescribe(long delta);
  static native TensorInfo[] deltaTensors(long delta);
  static native float[] deltaNumbers(long delta, String name, long count);
  static native ByteBuffer deltaIntegers(long delta, String name);
  static native void deltaApply(long delta, long model, double rate);
  static native double deltaPrivacy(long context, double noise, double share, long rounds, double delta);

  static native long embedderCreate(long model, Embedder.Options options);
  static native void embedderDestroy(long embedder);
  static native int embedderWidth(long embedder);
  static native int embedderLength(long embedder);
  static native long[] embedderMemory(long embedder);
  static native float[][] embed(long embedder, String[] texts, int[] counts);
  static native float[][] embedTokens(long embedder, int[][] texts);

  static native long importanceCreate(long model, Importance.Options options);
  static native void importanceDestroy(long importance);
  static native long importanceAdd(long importance, String text);
  static native long importanceAddTokens(long importance, int[] tokens);
  static native long importanceStep(long importance);
  static native Record importanceDescribe(long importance);
  static native Record[] importanceMatrices(long importance);
  static native long[] importanceMemory(long importance);

  static native Record[] layers(long model, Lists bindings);
  static native long planCreate(long model, TrainerOptions training, Session.Options session, Lists lists, String caps,
      boolean curve);
  static native void planDestroy(long plan);
  static native Forecast planForecast(long plan);
  static native Record[] planNodes(long plan);
  static native Record[] planValues(long plan);
  static native Record[] planCurve(long plan);
  static native Record[] findDamage(long model);
  static native Record[] verify(long model, Lists bindings, long seed, double tolerance);
  static native Record[] kernels(long context, boolean known);
  static native Record[] devices(String vulkanLibrary);

  static native long storeOpen(long context, String folder, boolean writable, long callbacks);
  static native void storeDestroy(long store);
  static native Record[] storeSnapshots(long store);
  static native Record storeFind(long store, String name);
  static native String storeMetadata(long store, String name, String key);
  static native String storeVerify(long store);
  static native Record[] storeDiff(long store, String first, String second);
  static native long storeRestore(long store, String name, long model);
  static native void storeTag(long store, String name, String tag, boolean away);
  static native long storePrune(long store, long keep);
  static native void storeBranch(long store, String name);

  private Jni() {}
}

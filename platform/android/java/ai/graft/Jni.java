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
  static native boolean setPace(long context, double sliceMs, double duty);
  static native void openCache(long context, String folder, boolean skipSelfTest);

  static native long modelLoad(long context, String path, int check);
  static native long modelLoadDescriptor(long context, String name, int descriptor, long offset, long bytes, int check);
  static native long modelLoadMemory(long context, String name, Block data, int check);
  static native void modelDestroy(long model);
  static native void modelSave(long model, String path);
  static native TensorInfo[] modelTensors(long model, int kind);
  static native void addAdapters(long model, String options, int seed);
  static native void addTokens(long model, String tokens);
  static native void loadAdapters(long model, String path);
  static native void saveAdapters(long model, String path);

  static native void mergeAdapters(long model, String quantize);

  static native long sessionCreate(long model, Session.Options options, String[] dimensions, long[] sizes, String[] wrt, String[] fetch);
  static native void sessionDestroy(long session);
  static native long[] sessionMemory(long session);
  static native void setInput(long session, String name, Block data);
  static native void sessionRun(long session);
  static native void sessionResize(long session, String[] dimensions, long[] sizes);
  static native void sessionPause(long session);
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
  static native void generate(long generator, String prompt, Generator.Sampling sampling, String[] stop,
      Callbacks callbacks);
  static native void generateTokens(long generator, int[] prompt, Generator.Sampling sampling, String[] stop,
      Callbacks callbacks);
  static native Generator.Generated generated(long generator);
  static native void generatorSwapAdapters(long generator, String path);

  static native long tokenizerCreate(long model);
  static native void tokenizerDestroy(long tokenizer);
  static native int tokenizerSize(long tokenizer);
  static native int tokenizerFind(long tokenizer, String token);
  static native int[] encode(long tokenizer, String text, boolean bare, boolean parseSpecial);
  static native String decode(long tokenizer, int[] tokens, boolean spellSpecial, boolean continued);
  static native int[] chatEncode(long tokenizer, String[] roles, String[] texts, String format);
  static native String chatRender(long tokenizer, String[] roles, String[] texts, String format);

  static native Forecast forecast(long model, TrainerOptions options, String fetch, String[] dimensions, long[] sizes);
  static native long trainerCreate(long model, TrainerOptions options, String fetch, String[] dimensions, long[] sizes);
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
  static native void trim(long trainer, long bytes);
  static native long shortages(long trainer);

  static native Checkpoint openCheckpoint(long trainer, Checkpoint.Options options, String[] keys, String[] values,
      long callbacks);
  static native void saveCheckpoint(long trainer, String tag);
  static native void closeCheckpoint(long trainer);
  static native void setCheckpointData(long trainer, int worker, byte[] data);
  static native byte[] checkpointData(long trainer, int worker);
  static native void warmStart(long trainer, String folder, String snapshot, long callbacks);

  private Jni() {}
}

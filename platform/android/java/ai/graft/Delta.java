package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.IntBuffer;
import java.util.Arrays;
import java.util.List;

/**
 * What training changed, of one client or averaged over several: what a federated round sends. {@link Model#deltaFrom} and
 * {@link Context#loadDelta} make it. Threads and closing: see {@link Context}.
 */
public final class Delta extends Handle implements Closeable {
  /** How its numbers are kept: INT8 in blocks with a scale, FIXED as integers modulo 2^32, for secure aggregation. */
  public enum Coding { F32, BF16, INT8, FIXED }

  public static final class Options extends Shown {
    /** That training used: what an average weighs by. */
    public long samples = 1;
    /** Optimizer steps. */
    public long localSteps;
    @NonNull public Coding coding = Coding.F32;
    /** Of FIXED: bits after the binary point, the same for all clients; 0 to 30. */
    public int fixedBits = 8;
    /** Of FIXED: clients whose integers must fit in a sum. */
    public int room = 1024;
    /** The whole delta is scaled to this L2 norm where it is longer; 0: not. */
    public double clipNorm;
    /** Normal noise of so many times clipNorm, from the system's entropy. */
    public double noise;
    /** A file that keeps what coding lost, to be added to the next round's delta; null: none. */
    @Nullable public String residual;
  }

  public static final class AverageOptions extends Shown {
    /** All clients weigh the same; otherwise by their samples. */
    public boolean equal;
    /** Of adapters, what their matrices multiply to is averaged and factored again, to `rank`; 0: the largest of them. */
    public boolean products;
    public int rank;
    /** Normal noise on the clients' sum, of so many times clipNorm, what each was clipped to; with equal. */
    public double noise;
    public double clipNorm;
  }

  /** What a delta says of itself. */
  public static final class Info extends Shown {
    /** The weights that it was made for, as 32 hexadecimal digits, and their file's name. */
    @NonNull public final String base;
    @NonNull public final String baseFile;
    /** It holds whole adapters, not changes. */
    public final boolean ofAdapters;
    /** Of all clients. */
    public final long samples;
    public final int clients;
    public final long localSteps;
    /** Of adapters; 0: none. */
    public final int rank;
    @NonNull public final Coding coding;
    /** Of FIXED. */
    public final int fixedBits;
    public final long tensors;
    public final long numbers;
    /** Before it was clipped. */
    public final double norm;
    /** 0: it was not. */
    public final double clipNorm;
    /** Standard deviation of the noise in each number. */
    public final double noise;
    /** Of an average of products: share of the exact average's squared norm that its matrices hold. */
    public final double kept;

    Info(Record record) {
      ofAdapters = record.flag();
      samples = record.number();
      clients = record.count();
      localSteps = record.number();
      rank = record.count();
      coding = Coding.values()[record.count()];
      fixedBits = record.count();
      tensors = record.number();
      numbers = record.number();
      norm = record.real();
      clipNorm = record.real();
      noise = record.real();
      kept = record.real();
      base = record.text();
      baseFile = record.text();
    }
  }

  /** Inside the gate. */
  Delta(Owner context, long pointer) {
    own = context.child(this, pointer, "delta", Jni::deltaDestroy);
  }

  @NonNull
  public Info info() {
    return new Info(own.call(Jni::deltaDescribe));
  }

  /** In the order of names. */
  @NonNull
  public List<TensorInfo> tensors() {
    return Arrays.asList(own.call(Jni::deltaTensors));
  }

  /** Decoded numbers of a tensor, row-major. */
  @NonNull
  public float[] numbers(@NonNull String name) {
    long count = 0;
    for (TensorInfo info : tensors()) {
      if (info.name.equals(name)) count = info.bytes() / info.type.bytes();
    }
    long room = count;
    return own.call(p -> Jni.deltaNumbers(p, name, room));
  }

  /** The integers of a tensor of FIXED, in place: the app adds its masks to them, modulo 2^32, before it sends them. */
  @NonNull
  public IntBuffer integers(@NonNull String name) {
    return own.call(p -> {
      ByteBuffer memory = Jni.deltaIntegers(p, name);
      View.of(own, memory);  // the delta stays as long as the buffer
      return memory.order(ByteOrder.nativeOrder()).asIntBuffer();
    });
  }

  /** Writes a file, atomically. */
  public void save(@NonNull String path) {
    own.run(p -> Jni.deltaSave(p, path));
  }

  /** The file's bytes, to send. */
  @NonNull
  public byte[] bytes() {
    return own.call(Jni::deltaBytes);
  }

  /** Adds it, times `rate`, to the model, which must have no sessions, generators or trainers. */
  public void applyTo(@NonNull Model model, double rate) {
    own.run(p -> {
      long to = model.own.given(own);
      model.needNoChildren("weights");
      Jni.deltaApply(p, to, rate);
    });
  }

  @Override
  public void close() {
    own.close();
  }
}

package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/**
 * Samples by number: of files, of memory, or what a function makes. {@link Context#openData} and its neighbours make it.
 * Threads and closing: see {@link Context}.
 */
public final class DataSet extends Handle implements Closeable {
  /** What records of "jsonl:FILE" are; in the order of graft_preference. */
  public enum Preference { NONE, PAIRS, LABELLED, GROUPS }

  /** How a set is opened. */
  public static final class Options extends Shown {
    /** That the data is for: text becomes its tokens, labels its classes; null: nothing is known. */
    @Nullable public Model model;
    /** Samples as they are, without augmentation, and labels of the model's classes alone. */
    public boolean evaluation;
    /** Of samples of text, in tokens; 0: 128. */
    public long length;
    /** All samples of text say where their texts begin: {@link TrainerOptions#packedSequences}. */
    public boolean sequenceStarts;
    /** Samples from first on alone, count of them; 0: to the end. */
    public long first;
    public long count;
    /** Samples hold several texts of `length` tokens each. */
    @NonNull public Preference preference = Preference.NONE;
    /** Of groups. */
    @NonNull public Pooling pooling = Pooling.DEFAULT;
  }

  /** What a part of a sample is for; in the order of graft_field.is_label. */
  public enum Role { INPUT, TARGET, WEIGHT }

  /** One tensor of a sample. */
  public static final class Field extends Shown {
    @NonNull public final String name;
    @NonNull public final TensorInfo.Type type;
    /** Of one sample: without the batch. */
    @NonNull public final long[] shape;
    /** Inputs stand before targets, and these before a weight, one F32 of 0 or more. */
    @NonNull public final Role role;
    /** What the numbers of a label stand for; empty where nobody says. */
    @NonNull public final List<String> classes;

    public Field(@NonNull String name, @NonNull TensorInfo.Type type, @NonNull Role role, @NonNull long... shape) {
      this(name, type, role, shape, Collections.emptyList());
    }

    private Field(String name, TensorInfo.Type type, Role role, long[] shape, List<String> classes) {
      this.name = name;
      this.type = type;
      this.role = role;
      this.shape = shape.clone();
      this.classes = classes;
    }

    static Field of(Record record) {
      TensorInfo.Type type = TensorInfo.Type.values()[record.count()];
      Role role = Role.values()[record.count()];
      String name = record.text();
      List<String> classes = new ArrayList<>();
      while (record.hasText()) classes.add(record.text());
      return new Field(name, type, role, record.rest(), Collections.unmodifiableList(classes));
    }

    TensorInfo info() {
      return new TensorInfo(name, type.ordinal(), shape, new String[0]);
    }
  }

  /** Makes samples, on graft's reading thread. */
  public interface Reader {
    /**
     * Fills a place for each field, in native order, with sample `index`; false: there is none, for the data ends before. The same
     * index gives the same sample, in whatever order they are asked for. The places are of this call alone. It must not call graft;
     * what it throws comes out of the call that fails for it, or is the cause of its GraftException.
     */
    boolean read(long index, @NonNull ByteBuffer[] places) throws Exception;
  }

  DataSet(Owner context, long pointer) {
    own = context.child(this, pointer, "data set", Jni::dataDestroy);
  }

  /** How the parts of samples reach JNI. */
  static final class Parts {
    final String[] names;
    final int[] types;
    final int[] roles;
    final int[] ranks;
    final double[] dims;

    Parts(List<Field> fields) {
      int count = fields.size();
      names = new String[count];
      types = new int[count];
      roles = new int[count];
      ranks = new int[count];
      List<Double> all = new ArrayList<>();
      for (int i = 0; i < count; i++) {
        Field field = fields.get(i);
        names[i] = field.name;
        types[i] = field.type.ordinal();
        roles[i] = field.role.ordinal();
        ranks[i] = field.shape.length;
        for (long dim : field.shape) all.add((double) dim);
      }
      dims = all.stream().mapToDouble(Double::doubleValue).toArray();
    }
  }

  /** Copies of contents, in memory that stays where it is. */
  static Block[] copies(List<Field> fields, long samples, Object[] contents, List<ByteBuffer> kept) {
    if (fields.size() != contents.length) {
      throw new GraftException.InvalidArgument(
          "There are " + fields.size() + " fields and contents of " + contents.length + ".");
    }
    Block[] blocks = new Block[contents.length];
    for (int i = 0; i < contents.length; i++) {
      Block given = Block.of(contents[i], fields.get(i).name);
      given.check(fields.get(i).info(), samples);
      ByteBuffer copy = ByteBuffer.allocateDirect((int) given.bytes).order(ByteOrder.nativeOrder());
      given.copyTo(copy);
      kept.add(copy);
      blocks[i] = Block.of(copy, fields.get(i).name);
    }
    return blocks;
  }

  /** 0 where nobody knows. */
  public long samples() {
    return own.call(Jni::dataSamples);
  }

  /** What one sample consists of, in order. */
  @NonNull
  public List<Field> fields() {
    List<Field> all = new ArrayList<>();
    for (Record record : own.call(Jni::dataFields)) all.add(Field.of(record));
    return all;
  }

  /**
   * What `model`, without adapters, makes of the texts of preferences becomes part of the samples: DPO, IPO and KTO learn by the
   * difference to it. Computed once, `batch` samples at a time, 0: 8; before the set has a loader.
   */
  public void addReference(@NonNull Model model, int batch) {
    own.run(p -> Jni.dataAddReference(p, model.own.given(own), batch));
  }

  /** Batches of this set, which has one loader at a time. */
  @NonNull
  public Loader loader(@NonNull Loader.Options options) {
    return own.call(p -> new Loader(own, Jni.loaderCreate(p, options)));
  }

  @Override
  public void close() {
    own.close();
  }
}

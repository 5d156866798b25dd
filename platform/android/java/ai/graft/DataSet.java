package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.List;

/**
 * Samples by number: of files, of memory, or what a function makes. {@link Context#openData} and its neighbours make it.
 * Threads and closing: see {@link Context}.
 */
public final class DataSet extends Handle implements Closeable {
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
    return own.call(p -> {
      List<Field> all = new ArrayList<>();
      for (long i = 0; i < Jni.dataFieldCount(p); i++) {
        long field = i;
        all.add(new Field(new In(Jni.dataField(p, field)), Lists.until(index -> Jni.dataClass(p, field, index))));
      }
      return all;
    });
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
  public Loader loader(@NonNull LoaderOptions options) {
    return own.call(p -> new Loader(own, Jni.loaderCreate(p, options.packed(own))));
  }

  @Override
  public void close() {
    own.close();
  }
}

package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.nio.ByteBuffer;
import java.util.List;

/**
 * A memory of examples: samples that an app adds one by one over years, in a file of bounded size; {@link Context#openMemory} makes
 * it. Threads and closing: see {@link Context}.
 */
public final class MemoryFile extends Handle implements Closeable {
  private final List<Field> fields;

  MemoryFile(Owner context, long pointer, List<Field> fields) {
    own = context.child(this, pointer, "memory", Jni::memoryDestroy);
    this.fields = fields;
  }

  /**
   * Adds a sample: contents of each field as for {@link Batch}, in the order of the fields that the memory was opened with. It is on
   * storage when the call returns. id: "": a hash of the contents.
   */
  @NonNull
  public MemoryAdded add(@NonNull String id, @NonNull RecordOptions options, @NonNull Object... contents) {
    if (fields.size() != contents.length) {
      throw new GraftException.InvalidArgument(
          "The memory was opened with " + fields.size() + " fields, and there are contents of " + contents.length + ".");
    }
    Block[] blocks = new Block[contents.length];
    for (int i = 0; i < contents.length; i++) {
      blocks[i] = Block.of(contents[i], fields.get(i).name);
      blocks[i].check(fields.get(i).info(), 1);
    }
    return In.one(own.call(p -> Jni.memoryAdd(p, id, blocks, options.packed(own))), MemoryAdded::new);
  }

  /** Adds all samples of a set; how many the memory then has of them. Ids are `prefix` and the sample's number, or hashes for "". */
  public long addData(@NonNull DataSet set, @NonNull String prefix, @NonNull RecordOptions options) {
    return own.call(p -> Jni.memoryAddData(p, set.own.given(own), prefix, options.packed(own)));
  }

  /** The record's loss now, for the policy of losses. */
  public void setLoss(@NonNull String id, double loss) {
    own.run(p -> Jni.memorySetLoss(p, id, loss));
  }

  /** Erases records: when it returns, the file has no byte of them. */
  public void remove(@NonNull List<String> ids) {
    own.run(p -> Jni.memoryRemove(p, new Out(own).texts(ids).bytes()));
  }

  /** Erases records of which the time is over at `nowMs`, 0: now; how many. */
  public long expire(long nowMs) {
    return own.call(p -> Jni.memoryExpire(p, nowMs));
  }

  /** All records, by id. */
  @NonNull
  public List<MemoryRecord> records() {
    return own.call(p -> Lists.until(i -> {
      byte[] packed = Jni.memoryAt(p, i);
      return packed == null ? null : In.one(packed, MemoryRecord::new);
    }));
  }

  @NonNull
  public MemoryRecord record(@NonNull String id) {
    return In.one(own.call(p -> Jni.memoryFind(p, id)), MemoryRecord::new);
  }

  /** A copy of a record's sample: its fields one after another, in native order. */
  @NonNull
  public ByteBuffer read(@NonNull String id) {
    return own.call(p -> View.copy(new In(Jni.memoryRead(p, id)).view()));
  }

  @NonNull
  public MemoryInfo info() {
    return In.one(own.call(Jni::memoryDescribe), MemoryInfo::new);
  }

  /** Its records of one part as they are now. nowMs: 0: now; records of which the time is over are left out. */
  @NonNull
  public DataSet data(@NonNull MemoryPart part, long nowMs) {
    return own.call(p -> new DataSet(own, Jni.memoryData(p, part.ordinal(), nowMs)));
  }

  /** All samples of a set, and records of the memory, which are `share` of an epoch; for a loader with LoaderOptions.keyed. */
  @NonNull
  public DataSet mix(@NonNull DataSet set, double share, long nowMs) {
    return own.call(p -> new DataSet(own, Jni.memoryMix(p, set.own.given(own), share, nowMs)));
  }

  /**
   * The first batch, from 0, that has a record, of a loader with these options on what data() or mix() gave; null: none has. limit:
   * batches that are looked at; 0: those of all epochs. To forget it exactly, CheckpointOptions.forget goes back before that.
   */
  @Nullable
  public Long firstUse(@NonNull DataSet set, @NonNull LoaderOptions options, @NonNull String id, long limit) {
    try {
      return own.call(p -> Jni.memoryFirstUse(set.own.given(own), options.packed(own), id, limit));
    } catch (GraftException.NotFound none) {
      return null;
    }
  }

  @Override
  public void close() {
    own.close();
  }
}

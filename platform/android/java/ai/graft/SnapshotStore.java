package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * The folder of a run, open to be read and tidied; {@link Context#openStore} makes it. A snapshot is named by its number in decimal or
 * a tag; null: the one that training goes on from. Threads and closing: see {@link Context}.
 */
public final class SnapshotStore extends Handle implements Closeable {
  /** One snapshot of a run. */
  public static final class Snapshot extends Shown {
    public final long number;
    /** Optimizer steps done. */
    public final long step;
    /** When it was made, in milliseconds as of System.currentTimeMillis. */
    public final long madeMs;
    /** Of the state, decoded; of all that it needs in storage; of what no other snapshot needs. */
    public final long bytes;
    public final long storedBytes;
    public final long ownBytes;
    /** Training goes on from here. */
    public final boolean head;
    /** Of the last step. */
    public final double loss;
    @NonNull public final List<String> tags;

    Snapshot(Record record) {
      number = record.number();
      step = record.number();
      madeMs = record.number();
      bytes = record.number();
      storedBytes = record.number();
      ownBytes = record.number();
      head = record.flag();
      loss = record.real();
      tags = lines(record.text());
    }
  }

  /** In the order of graft_difference. */
  public enum Difference { SAME, CHANGED, ONLY_IN_FIRST, ONLY_IN_SECOND }

  /** One tensor, or another part of the state, in two snapshots. */
  public static final class StreamDifference extends Shown {
    @NonNull public final String name;
    public final int worker;
    @NonNull public final Difference difference;
    public final long bytesInFirst;
    public final long bytesInSecond;
    /** At most: whole chunks are compared. */
    public final long changedBytes;

    StreamDifference(Record record) {
      name = record.text();
      worker = record.count();
      difference = Difference.values()[record.count()];
      bytesInFirst = record.number();
      bytesInSecond = record.number();
      changedBytes = record.number();
    }
  }

  /** Inside the gate; `callbacks`: of its cipher. */
  SnapshotStore(Owner context, long pointer, long callbacks) {
    own = context.child(this, pointer, "store", Jni::storeDestroy);
    own.keep(callbacks);
  }

  private static List<String> lines(String text) {
    return text.isEmpty() ? Collections.emptyList() : Arrays.asList(text.split("\n"));
  }

  /** The oldest first. */
  @NonNull
  public List<Snapshot> snapshots() {
    List<Snapshot> all = new ArrayList<>();
    for (Record record : own.call(Jni::storeSnapshots)) all.add(new Snapshot(record));
    return all;
  }

  @NonNull
  public Snapshot snapshot(@Nullable String name) {
    return new Snapshot(own.call(p -> Jni.storeFind(p, name)));
  }

  /** What the app said in Checkpoint.Options.metadata; NotFound: no such key. */
  @NonNull
  public String metadata(@Nullable String name, @NonNull String key) {
    return own.call(p -> Jni.storeMetadata(p, name, key));
  }

  /** Decodes and compares everything: the problems, none where all is well. */
  @NonNull
  public List<String> verify() {
    return lines(own.call(Jni::storeVerify));
  }

  /** How two snapshots differ; nothing is decoded. */
  @NonNull
  public List<StreamDifference> differences(@Nullable String first, @Nullable String second) {
    List<StreamDifference> all = new ArrayList<>();
    for (Record record : own.call(p -> Jni.storeDiff(p, first, second))) all.add(new StreamDifference(record));
    return all;
  }

  /** Puts the parameters and running statistics of a snapshot into the model that was trained; how many tensors. */
  public long restore(@Nullable String name, @NonNull Model model) {
    return own.call(p -> {
      long to = model.own.given(own);
      model.needNoChildren("weights");
      return Jni.storeRestore(p, name, to);
    });
  }

  /** A tag keeps a snapshot from being pruned. This and what follows need a writable store. */
  public void tag(@Nullable String name, @NonNull String tag) {
    own.run(p -> Jni.storeTag(p, name, tag, false));
  }

  public void untag(@Nullable String name, @NonNull String tag) {
    own.run(p -> Jni.storeTag(p, name, tag, true));
  }

  /** Deletes all but the newest `keep` snapshots, those with a tag and the one that training goes on from; how many went. */
  public long prune(long keep) {
    if (keep < 0) throw new GraftException.InvalidArgument("A number of snapshots to keep must not be negative.");
    return own.call(p -> Jni.storePrune(p, keep));
  }

  /** A resume goes on from this snapshot; later ones stay. */
  public void branch(@NonNull String name) {
    own.run(p -> Jni.storeBranch(p, name));
  }

  @Override
  public void close() {
    own.close();
  }
}

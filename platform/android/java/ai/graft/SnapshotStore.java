package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * The folder of a run, open to be read and tidied; {@link Context#openStore} makes it. A snapshot is named by its number in decimal or
 * a tag; null: the one that training goes on from. Threads and closing: see {@link Context}.
 */
public final class SnapshotStore extends Handle implements Closeable {
  SnapshotStore(Owner context, long pointer) {
    own = context.child(this, pointer, "store", Jni::storeDestroy);
  }

  /** The oldest first. */
  @NonNull
  public List<Snapshot> snapshots() {
    return own.call(p -> Lists.of(Jni.storeCount(p), i -> In.one(Jni.storeSnapshot(p, i), Snapshot::new)));
  }

  @NonNull
  public Snapshot snapshot(@Nullable String name) {
    return In.one(own.call(p -> Jni.storeFind(p, name)), Snapshot::new);
  }

  /** What the app said in CheckpointOptions.metadata; NotFound: no such key. */
  @NonNull
  public String metadata(@Nullable String name, @NonNull String key) {
    return own.call(p -> Jni.storeMetadata(p, name, key));
  }

  /** Of a snapshot's parameters, running statistics and optimizer state: the same for the same bits. */
  @NonNull
  public String hash(@Nullable String name) {
    return own.call(p -> Jni.storeHash(p, name));
  }

  /** Decodes and compares everything: the problems, none where all is well. */
  @NonNull
  public List<String> verify() {
    String said = own.call(Jni::storeVerify);
    return said.isEmpty() ? Collections.emptyList() : Arrays.asList(said.split("\n"));
  }

  /** How two snapshots differ; nothing is decoded. */
  @NonNull
  public List<StreamDifference> differences(@Nullable String first, @Nullable String second) {
    return In.all(own.call(p -> Jni.storeDiff(p, first, second)), StreamDifference::new);
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
    own.run(p -> Jni.storeTag(p, name, tag));
  }

  public void untag(@Nullable String name, @NonNull String tag) {
    own.run(p -> Jni.storeUntag(p, name, tag));
  }

  /** Deletes all but the newest `keep` snapshots, those with a tag and the one that training goes on from; how many went. */
  public long prune(long keep) {
    return new In(own.call(p -> Jni.storePrune(p, keep))).number();
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

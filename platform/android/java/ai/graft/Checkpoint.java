package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.util.LinkedHashMap;
import java.util.Map;

/** Where a trainer's run stood when its folder was opened; {@link Trainer#openCheckpoint}. */
public final class Checkpoint {
  /** How a run is kept. */
  public static final class Options extends Shown {
    /** Made where missing; one trainer at a time writes to it. */
    @NonNull public final String folder;
    /** Steps between snapshots; 0: only {@link Trainer#saveCheckpoint}. */
    public long every;
    /** Steps are durable at each k-th; 0: each, before trainStep returns. */
    public long journalEvery;
    /** Instead, where not 0: so many milliseconds later at most. */
    public long journalMs;
    /** Newest snapshots to keep; tagged ones always stay; 0: 4. */
    public int keep;
    /** Go on from what the folder holds, a snapshot or nothing; otherwise it must hold none. */
    public boolean resume;
    /** With resume: the snapshot to go back to, by number or tag; null: the newest. */
    @Nullable public String from;
    /** With resume: go on although options differ; the model may not. */
    public boolean withChanges;
    /** Where a step that is taken again differs from the journal: go on from the snapshot. */
    public boolean continueOnMismatch;
    /** Parameters may be NaN or infinite; otherwise no snapshot of such is written, and none is resumed. */
    public boolean allowNonFinite;
    /** Whatever tells the data apart: a resume with another is refused. */
    @Nullable public String data;
    /** Of the app, kept with each snapshot. */
    @NonNull public final Map<String, String> metadata = new LinkedHashMap<>();
    /** Of {@link Trainer#trainNext}: its place is kept with each snapshot, and a resume goes on there; null: none. */
    @Nullable public Loader loader;
    /** Of everything in the folder; null: none. */
    @Nullable public Cipher cipher;

    public Options(@NonNull String folder) {
      this.folder = folder;
    }
  }

  /** Optimizer steps done. */
  public final long step;
  /** Of the step in progress: see {@link Trainer#microStep}. */
  public final long samplesDone;
  /** Steps that the journal has after these: give the same batches, and they are compared. */
  public final long journalled;

  /** Called from JNI. */
  Checkpoint(long step, long samplesDone, long journalled) {
    this.step = step;
    this.samplesDone = samplesDone;
    this.journalled = journalled;
  }
}

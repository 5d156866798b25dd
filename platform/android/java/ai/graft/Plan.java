package ai.graft;

import androidx.annotation.NonNull;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** What a session or a trainer would do; {@link Model#plan}. */
public final class Plan extends Shown {
  /** A node of a model's graph; {@link Model#layers}. */
  public static final class Layer extends Shown {
    @NonNull public final String name;
    @NonNull public final String op;
    /** Of its first output, with names of dimensions, as in "[batch, 10]". */
    @NonNull public final String shape;
    /** Elements that are trained. */
    public final long parameters;
    /** Of weights. */
    public final long bytes;
    /** Forward, with the bindings. */
    public final long flops;

    Layer(Record record) {
      name = record.text();
      op = record.text();
      shape = record.text();
      parameters = record.number();
      bytes = record.number();
      flops = record.number();
    }
  }

  /** What runs; fused nodes as one. */
  public static final class Node extends Shown {
    @NonNull public final String name;
    @NonNull public final String op;
    /** It serves a forward node. */
    public final boolean backward;
    /** It repeats one. */
    public final boolean recomputed;
    public final long flops;
    /** Read and written. */
    public final long bytes;
    /** Workspace. */
    public final long scratchBytes;
    /** Of results that are in memory while it runs. */
    public final long liveBytes;
    public final int dispatches;

    Node(Record record) {
      name = record.text();
      op = record.text();
      backward = record.flag();
      recomputed = record.flag();
      flops = record.number();
      bytes = record.number();
      scratchBytes = record.number();
      liveBytes = record.number();
      dispatches = record.count();
    }
  }

  /** A value, and where in memory it lies while which nodes run. */
  public static final class Value extends Shown {
    @NonNull public final String name;
    /** "weights", "activations", ... as the fields of {@link Memory}. */
    @NonNull public final String memoryClass;
    /** In memory of its kind. */
    public final long offset;
    public final long bytes;
    /** The node that needs it first and last; the number of nodes where it is kept to the end. */
    public final int first;
    public final int last;
    /** It outlives the forward pass for the backward pass. */
    public final boolean saved;

    Value(Record record) {
      name = record.text();
      memoryClass = record.text();
      offset = record.number();
      bytes = record.number();
      first = record.count();
      last = record.count();
      saved = record.flag();
    }
  }

  /** One choice between memory and work: some results are computed again in the backward pass. */
  public static final class Point extends Shown {
    /** Of the whole run, at least. */
    public final long bytes;
    public final long extraFlops;
    /** Read and written. */
    public final long extraBytes;
    public final int recomputed;

    Point(Record record) {
      bytes = record.number();
      extraFlops = record.number();
      extraBytes = record.number();
      recomputed = record.count();
    }
  }

  @NonNull public final Forecast forecast;
  /** In the order in which they run. */
  @NonNull public final List<Node> nodes;
  @NonNull public final List<Value> values;
  /** By falling memory, where it was asked for. */
  @NonNull public final List<Point> curve;

  /** Inside the gate. */
  Plan(long plan) {
    List<Node> runs = new ArrayList<>();
    List<Value> kept = new ArrayList<>();
    List<Point> points = new ArrayList<>();
    try {
      forecast = Jni.planForecast(plan);
      for (Record record : Jni.planNodes(plan)) runs.add(new Node(record));
      for (Record record : Jni.planValues(plan)) kept.add(new Value(record));
      for (Record record : Jni.planCurve(plan)) points.add(new Point(record));
    } finally {
      Jni.planDestroy(plan);
    }
    nodes = Collections.unmodifiableList(runs);
    values = Collections.unmodifiableList(kept);
    curve = Collections.unmodifiableList(points);
  }
}

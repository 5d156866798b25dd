package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.util.ArrayList;
import java.util.List;

/**
 * What a model gave on a data set; {@link Model#evaluation} and {@link Trainer#evaluation} make it. Threads and closing: see
 * {@link Context}.
 */
public final class Evaluation extends Handle implements Closeable {
  /** What is asked for. */
  public static final class Options extends Shown {
    /** Beside the loss, as in "f1,auroc": {@link Evaluation#metricNames} has them. */
    @Nullable public String metrics;
    /** The confusion matrix, of a loss of labels. */
    public boolean confusion;
    /** What is said of each sample is kept, for {@link Evaluation#compare}. */
    public boolean outcomes;
  }

  /** Means over all samples; NaN where one has no meaning. */
  public static final class Totals extends Shown {
    public final long samples;
    public final double loss;
    public final double accuracy;
    public final double top5;
    public final double perplexity;
    /** What the labels stand for; empty where nobody says. */
    @NonNull public final List<String> classes = new ArrayList<>();

    Totals(Record record) {
      samples = record.number();
      loss = record.real();
      accuracy = record.real();
      top5 = record.real();
      perplexity = record.real();
      while (record.hasText()) classes.add(record.text());
    }
  }

  /** One metric. */
  public static final class Metric extends Shown {
    @NonNull public final String name;
    /** NaN where it is not defined. */
    public final double value;
    /** Of precision, recall, f1, iou and auroc; NaN for classes that do not occur. */
    @NonNull public final double[] byClass;

    Metric(Record record) {
      name = record.text();
      value = record.real();
      byClass = new double[record.count()];
      for (int i = 0; i < byClass.length; i++) byClass[i] = record.real();
    }
  }

  /** One class in a comparison. */
  public static final class ClassChange extends Shown {
    public final int label;
    public final long rows;
    public final long oldRight;
    public final long newRight;

    ClassChange(Record record) {
      label = record.count();
      rows = record.number();
      oldRight = record.number();
      newRight = record.number();
    }
  }

  /** How two models differ on the same data. A row is one label or number of a sample. */
  public static final class Comparison extends Shown {
    public final long samples;
    public final long rows;
    /** Of a regression, samples that one is closer to count as right for it alone. */
    public final long bothRight;
    public final long onlyOld;
    public final long onlyNew;
    public final long neither;
    /** McNemar's test, of a regression a sign test; of the binomial distribution (exact), or of chi-squared. */
    public final double pValue;
    public final boolean exact;
    /** Samples of which another class is predicted, those with a row that only the old one has right, the other way round. */
    @NonNull public final long[] changed;
    @NonNull public final long[] lost;
    @NonNull public final long[] gained;
    @NonNull public final List<ClassChange> classes = new ArrayList<>();

    Comparison(Record record, long[][] lists) {
      samples = record.number();
      rows = record.number();
      bothRight = record.number();
      onlyOld = record.number();
      onlyNew = record.number();
      neither = record.number();
      exact = record.flag();
      int count = record.count();
      pValue = record.real();
      changed = lists[0];
      lost = lists[1];
      gained = lists[2];
      for (int i = 0; i < count; i++) classes.add(new ClassChange(record));
    }
  }

  /** What evaluations are watched for; each metric is "loss", "accuracy" or one that the evaluation was asked for. */
  public static final class Watch extends Shown {
    /** With the schedule PLATEAU: the rate falls by factor where this gets no better for `patience` evaluations. */
    @Nullable public String plateau;
    public long patience = 10;
    public double factor = 0.1;
    /** The verdict is to stop where this gets no better for stopPatience evaluations in a row. */
    @Nullable public String earlyStop;
    public long stopPatience = 1;
    /** By how much better counts. */
    public double minDelta;
    /** The verdict says whether this is the best so far. */
    @Nullable public String best;
  }

  /** What became of an evaluation. */
  public static final class Verdict extends Shown {
    public final boolean stop;
    public final boolean best;
    /** The learning rate fell. */
    public final boolean slower;
    public final double learningRate;

    Verdict(Record record) {
      stop = record.flag();
      best = record.flag();
      slower = record.flag();
      learningRate = record.real();
    }
  }

  /** What a gate found: {@link Model#gate}. */
  public static final class Gated extends Shown {
    public final boolean passed;
    /** A sentence where it did not pass, else "". */
    @NonNull public final String reason;
    /** The first metric of the new model, and of the old one; NaN without one. */
    public final double now;
    public final double before;
    /** McNemar's test, of a regression a sign test; 1 without an old model. */
    public final double pValue;
    /** Samples of which another class is predicted, those that only the old model has right, the other way round. */
    @NonNull public final long[] changed;
    @NonNull public final long[] lost;
    @NonNull public final long[] gained;

    Gated(Record record, long[][] lists) {
      passed = record.flag();
      now = record.real();
      before = record.real();
      pValue = record.real();
      reason = record.text();
      changed = lists[0];
      lost = lists[1];
      gained = lists[2];
    }
  }

  /** Inside `made`'s gate. */
  Evaluation(Owner made, long pointer) {
    own = made.child(this, pointer, "evaluation", Jni::evaluationDestroy);
  }

  /** The names of metrics that there are, for sentences. */
  @NonNull
  public static String metricNames() {
    return Jni.metricNames();
  }

  @NonNull
  public Totals totals() {
    return new Totals(own.call(Jni::evaluationTotals));
  }

  /** In the order asked for. */
  @NonNull
  public List<Metric> metrics() {
    List<Metric> all = new ArrayList<>();
    for (Record record : own.call(Jni::evaluationMetrics)) all.add(new Metric(record));
    return all;
  }

  /** Rows are what samples are, columns what they were taken for, one row after another; null unless asked for. */
  @Nullable
  public long[] confusion() {
    return own.call(Jni::evaluationConfusion);
  }

  /** How this one differs from an older one of the same data; both made with outcomes. */
  @NonNull
  public Comparison compare(@NonNull Evaluation before) {
    long[][] lists = new long[3][];
    return own.call(p -> new Comparison(Jni.evaluationsCompare(p, before.own.given(own), lists), lists));
  }

  @Override
  public void close() {
    own.close();
  }
}

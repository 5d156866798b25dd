package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.io.Closeable;
import java.util.List;

/**
 * What a model gave on a data set; {@link Model#evaluation} and {@link Trainer#evaluation} make it. Threads and closing: see
 * {@link Context}.
 */
public final class Evaluation extends Handle implements Closeable {
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
    return In.one(own.call(Jni::evaluationTotals), Totals::new);
  }

  /** What the labels stand for; empty where nobody says. */
  @NonNull
  public List<String> classes() {
    return own.call(p -> Lists.until(i -> Jni.evaluationClass(p, i)));
  }

  /** In the order asked for. */
  @NonNull
  public List<MetricValue> metrics() {
    return own.call(p -> Lists.of(Jni.evaluationCount(p), i -> In.one(Jni.evaluationMetric(p, i), MetricValue::new)));
  }

  /** Rows are what samples are, columns what they were taken for, one row after another; null unless asked for. */
  @Nullable
  public long[] confusion() {
    return In.one(own.call(Jni::evaluationConfusion), In::longs);
  }

  /** How this one differs from an older one of the same data; both made with outcomes. */
  @NonNull
  public Comparison compare(@NonNull Evaluation before) {
    return own.call(p -> In.one(Jni.evaluationsCompare(before.own.given(own), p), Comparison::new));
  }

  @Override
  public void close() {
    own.close();
  }
}

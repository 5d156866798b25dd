package ai.graft;

import androidx.annotation.NonNull;
import java.util.Collections;
import java.util.List;

/** What a session or a trainer would do; {@link Model#plan}. */
public final class Plan extends Shown {
  @NonNull public final Forecast forecast;
  /** In the order in which they run. */
  @NonNull public final List<PlanNode> nodes;
  @NonNull public final List<PlanValue> values;
  /** By falling memory, where it was asked for. */
  @NonNull public final List<PlanPoint> curve;

  /** Inside the gate. */
  Plan(long plan) {
    try {
      forecast = In.one(Jni.planForecast(plan), Forecast::new);
      nodes = Lists.of(Jni.planNodeCount(plan), i -> In.one(Jni.planNodeAt(plan, i), PlanNode::new));
      values = Lists.of(Jni.planValueCount(plan), i -> In.one(Jni.planValueAt(plan, i), PlanValue::new));
      byte[] points = Jni.planCurve(plan);
      curve = points == null ? Collections.emptyList() : In.all(points, PlanPoint::new);
    } finally {
      Jni.planDestroy(plan);
    }
  }
}

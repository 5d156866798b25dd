package ai.graft;

import androidx.annotation.NonNull;

/** Options of the parameters whose name matches: '*' stands for any characters, '?' for one. The first that matches decides. */
public final class ParameterGroup extends Shown {
  @NonNull public final String pattern;
  public double learningRateScale = 1;
  /** NaN: the trainer's. */
  public double weightDecay = Double.NaN;

  public ParameterGroup(@NonNull String pattern) {
    this.pattern = pattern;
  }
}

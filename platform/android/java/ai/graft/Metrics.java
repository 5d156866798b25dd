package ai.graft;

/** What a step or an evaluation measured. */
public final class Metrics {
  /** Optimizer steps done. */
  public final long step;
  /** Mean over the samples. */
  public final double loss;
  /** 0 to 1; NaN where it has no meaning. */
  public final double accuracy;
  public final double learningRate;
  /** Of the next step; 1 where there is none. */
  public final double lossScale;
  /** Of the whole run: steps that overflowed and changed nothing but the scale. */
  public final long skippedSteps;

  /** Called from JNI. */
  Metrics(long step, double loss, double accuracy, double learningRate, double lossScale, long skippedSteps) {
    this.step = step;
    this.loss = loss;
    this.accuracy = accuracy;
    this.learningRate = learningRate;
    this.lossScale = lossScale;
    this.skippedSteps = skippedSteps;
  }

  @Override
  public String toString() {
    return "step " + step + ", loss " + loss + ", accuracy " + accuracy;
  }
}

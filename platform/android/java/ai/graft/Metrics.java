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
  /** Of DPO, IPO, ORPO and KTO: by how much the wanted texts are rewarded more; NaN of other losses. */
  public final double rewardMargin;

  /** Called from JNI. */
  Metrics(Record record) {
    step = record.number();
    skippedSteps = record.number();
    loss = record.real();
    accuracy = record.real();
    learningRate = record.real();
    lossScale = record.real();
    rewardMargin = record.real();
  }

  @Override
  public String toString() {
    return "step " + step + ", loss " + loss + ", accuracy " + accuracy;
  }
}

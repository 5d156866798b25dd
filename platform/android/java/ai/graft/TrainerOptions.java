package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** How a model is trained. In Kotlin: TrainerOptions().apply { batch = 64; checkpoints = true }. */
public final class TrainerOptions {
  /** In the order of graft_loss; BCE is of logits. */
  public enum Loss { CROSS_ENTROPY, MSE, L1, BCE }

  /** In the order of graft_optimizer. */
  public enum Optimizer { ADAMW, ADAM, SGD, ADAMW_8BIT }

  /** In the order of graft_schedule; LINEAR and COSINE end at finalLrFactor after totalSteps, STEP is times gamma after each stepSize. */
  public enum Schedule { CONSTANT, LINEAR, COSINE, STEP }

  @NonNull public Loss loss = Loss.CROSS_ENTROPY;
  @NonNull public Optimizer optimizer = Optimizer.ADAMW;
  public double learningRate = 1e-3;
  /** SGD. */
  public double momentum;
  /** SGD. */
  public boolean nesterov;
  public double weightDecay;
  /** Of all gradients together; 0: none. */
  public double clipNorm;
  /** Cross entropy. */
  public double labelSmoothing;
  @NonNull public Schedule schedule = Schedule.CONSTANT;
  public long warmupSteps;
  public long totalSteps;
  /** Samples of one optimizer step. */
  public int batch = 32;
  /** Samples on the device at once; 0: the whole batch, or as many as fit the budget. */
  public int microBatch;
  public int seed;
  /** Patterns of parameter names ('*', '?') separated by commas. */
  @Nullable public String freeze;
  /** Named dimensions other than the batch. */
  @NonNull public final Map<String, Long> bindings = new LinkedHashMap<>();
  /** A sample holds several texts, none of which sees another; one more input says where each begins. */
  public boolean packedSequences;
  /** Bytes of device memory; 0: no limit. */
  public long budget;
  /** {@link Trainer#openCheckpoint} will be called: takes memory for a copy of the state. */
  public boolean checkpoints;
  /** Values of the forward pass that {@link Trainer#fetch} gives after each step. */
  @NonNull public final List<String> fetch = new ArrayList<>();
  @NonNull public Precision precision = Precision.F32;
  /** Initial, and dynamic from there; 0: 65536 for F16, else none; below 0: none. */
  public double lossScale;
  /** Of the Adams, as epsilon. */
  public double beta1 = 0.9;
  public double beta2 = 0.999;
  public double epsilon = 1e-8;
  /** Largest absolute value of an element of a gradient, before clipNorm; 0: none. */
  public double clipValue;
  /** Cross entropy: rows with this label count for nothing. */
  public int ignoreIndex = -100;
  /** Share of the rate at the end of LINEAR and COSINE. */
  public double finalLrFactor;
  public long stepSize = 1000;
  public double gamma = 0.1;
  /** Steps without overflow that double the loss scale. */
  public long growthInterval = 2000;
  /** Batch norm uses its running statistics and does not move them. */
  public boolean frozenStatistics;
  /**
   * A parameter takes its step as soon as its gradient is complete, which takes less memory; after a gradient that is not finite
   * others may have moved. Not with clipNorm or a loss scale.
   */
  public boolean optimizerInBackward;
  /**
   * Where the device is lost it is opened anew, and the step begun again, to the same bits; what training changes is
   * copied to host memory after each step.
   */
  public boolean recoverDevice;

  /** As graft takes them; null where there are none. */
  String fetched() {
    return fetch.isEmpty() ? null : String.join(",", fetch);
  }
}

package ai.graft;

import androidx.annotation.NonNull;
import androidx.annotation.Nullable;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** How a model is trained. In Kotlin: TrainerOptions().apply { batch = 64; checkpoints = true }. */
public final class TrainerOptions extends Shown {
  /**
   * In the order of graft_loss; BCE, FOCAL, KL and CTC are of logits; TRIPLET, INFO_NCE and OUTPUT have no target. DPO to KTO
   * are of language models, from preferences: {@link DataSet.Options#preference}.
   */
  public enum Loss {
    CROSS_ENTROPY, MSE, L1, BCE, FOCAL, DICE, HUBER, SMOOTH_L1, KL, COSINE, TRIPLET, INFO_NCE, CTC, OUTPUT, DPO, IPO, ORPO, KTO
  }

  /** In the order of graft_optimizer. */
  public enum Optimizer { ADAMW, ADAM, SGD, ADAMW_8BIT, LION, RMSPROP, ADAGRAD, ADAFACTOR, LAMB, MUON }

  /**
   * In the order of graft_schedule; LINEAR, COSINE and POLYNOMIAL end at finalLrFactor after totalSteps, ONE_CYCLE rises and
   * falls over them, STEP is times gamma after each stepSize, PLATEAU as {@link Trainer#observe} lets it fall.
   */
  public enum Schedule { CONSTANT, LINEAR, COSINE, STEP, ONE_CYCLE, POLYNOMIAL, PLATEAU }

  /** Of classAxis: the axis that the labels' shape lacks, else 1. */
  public static final int AXIS_OF_LABELS = Integer.MIN_VALUE;

  @NonNull public Loss loss = Loss.CROSS_ENTROPY;
  /**
   * Terms, "ce:label+0.5*mse:box", instead of loss: kinds, and outputs of the model or targets by name. Of several targets
   * all but the last are inputs of a {@link Batch}, behind the model's. Null: loss, of the first output.
   */
  @Nullable public String losses;
  @NonNull public Optimizer optimizer = Optimizer.ADAMW;
  public double learningRate = 1e-3;
  /** SGD, RMSPROP and MUON. */
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
  public int classAxis = AXIS_OF_LABELS;
  /** Of CROSS_ENTROPY and FOCAL, one for each class; null: 1. */
  @Nullable public double[] classWeights;
  /** BCE: of ones, for all or for each of the last axis; null: 1. */
  @Nullable public double[] posWeight;
  /** Name of the target that holds a weight for each sample; null: none. */
  @Nullable public String sampleWeights;
  public double focalGamma = 2;
  /** FOCAL, of targets: weight of ones against zeros; 0: none. */
  public double focalAlpha;
  public double huberDelta = 1;
  public double smoothL1Beta = 1;
  /** NaN: 0 of COSINE, 1 of TRIPLET. */
  public double margin = Double.NaN;
  /** INFO_NCE, 0: 0.07; distillation, 0: 2. */
  public double temperature;
  /**
   * Another language model of the same vocabulary and context, from whose logits the model learns beside the labels, with
   * CROSS_ENTROPY; it may be closed once the trainer is there. Null: none.
   */
  @Nullable public Model teacher;
  /** How much the teacher counts beside the labels, 0 to 1. */
  public double distillWeight = 0.5;
  /** DPO, IPO, ORPO and KTO. */
  public double preferenceBeta = 0.1;
  /** KTO: of texts that are wanted, and of the others. */
  public double desirableWeight = 1;
  public double undesirableWeight = 1;
  /** mu of a term mu/2 |w - w0|^2 that pulls to the weights that the run began with (FedProx); 0: none. */
  public double proximal;
  /** Whose samples {@link Trainer#trainNext} takes; null: the model's own. */
  @Nullable public DataSet data;
  /** Of parameters by their names. */
  @NonNull public final List<ParameterGroup> groups = new ArrayList<>();
  /** Inputs of samples that are given as bytes or halves, by name. */
  @NonNull public final Map<String, InputFormat> formats = new LinkedHashMap<>();
  /** {@link Trainer#evaluation} gives metrics of predictions, too. */
  public boolean predictions;
  /** Every op and every tensor has dispatches of its own: the same bits, slower. */
  public boolean noFusion;
  /** CTC: the class of the blank. */
  public int blank;
  /** CTC: 0 where labels do not fit the time. */
  public boolean zeroInfinity;
  /** CTC: labels of a sample; 0: half the time. */
  public int targetLength;
  /** RMSPROP. */
  public double alpha = 0.99;
  public boolean centered;
  /** ADAGRAD. */
  public double lrDecay;
  public double initialAccumulatorValue;
  /** ADAFACTOR. */
  public double beta2Decay = -0.8;
  public double epsilon2 = 1e-3;
  public double clipThreshold = 1;
  /** MUON. */
  public int nsSteps = 5;
  /** MUON: steps of the size of AdamW's. */
  public boolean matchRmsAdamw;
  /** MUON: patterns of matrices that AdamW takes, separated by commas. */
  @Nullable public String adamwFor;
  /** Weight of the past in a running mean of the parameters ({@link Trainer#storeEma}); 0: none. */
  public double ema;
  /** Learning rate of a layer over that of the layer behind it. */
  public double layerDecay = 1;
  /** ONE_CYCLE. */
  public double rise = 0.3;
  public double divFactor = 25;
  public double finalDivFactor = 1e4;
  /** POLYNOMIAL. */
  public double power = 1;
  /** A sample holds several texts, none of which sees another; one more input says where each begins. */
  public boolean packedSequences;
  /** NEFTune, for language models: of noise on the embeddings of tokens in training; 0: none. */
  public double neftuneAlpha;
  /** Bytes of device memory; 0: no limit. */
  public long budget;
  /** {@link Trainer#openCheckpoint} will be called: takes memory for a copy of the state. */
  public boolean checkpoints;
  /** Values of the forward pass that {@link Trainer#fetch} gives after each step. */
  @NonNull public final List<String> fetch = new ArrayList<>();
  @NonNull public Precision precision = Precision.F32;
  /** Initial, and dynamic from there; 0: 65536 for F16, else none; below 0: none. */
  public double lossScale;
  /** Of the Adams, LION and LAMB, as epsilon. */
  public double beta1 = 0.9;
  /** 0, of either: the optimizer's own. */
  public double beta2;
  public double epsilon;
  /** Largest absolute value of an element of a gradient, before clipNorm; 0: none. */
  public double clipValue;
  /** Cross entropy: rows with this label count for nothing. */
  public int ignoreIndex = -100;
  /** Share of the rate at the end of LINEAR, COSINE and POLYNOMIAL. */
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
}

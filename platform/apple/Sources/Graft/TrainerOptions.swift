// What a training run is made with.
import CGraft

public enum Loss: UInt32, Sendable {
  case crossEntropy, mse, l1
  /// Of logits.
  case bce, focal
  case dice, huber, smoothL1
  /// Of logits, from probabilities; a mean over samples.
  case kl
  /// Of the model's first two outputs; targets 1 and -1.
  case cosine
  /// Of its first three: anchor, positive, negative; no target.
  case triplet
  /// Of its first two, each row against all others of the batch; no target.
  case infoNCE
  /// Of logits [batch, time, classes]; labels end at the first below 0.
  case ctc
  /// An output of the model that is the loss; no target.
  case output
  /// Of language models, from preferences: see `DataSet.Options.preference`. ORPO needs no reference, KTO is of single texts.
  case dpo, ipo, orpo, kto
}

public enum Optimizer: UInt32, Sendable {
  case adamW, adam, sgd
  /// AdamW with its state in 8 bits.
  case adamW8bit
  case lion, rmsprop, adagrad, adafactor, lamb
  /// Matrices; all else by AdamW.
  case muon
}

public enum Schedule: UInt32, Sendable {
  case constant
  /// To zero, or `finalLearningRateFactor`, at `totalSteps`.
  case linear, cosine
  /// Times `gamma` after each `stepSize` steps.
  case step
  /// Up and down over `totalSteps`.
  case oneCycle
  /// To `finalLearningRateFactor` at `totalSteps`, as a power of what is left.
  case polynomial
  /// As `Trainer.observe` lets it fall.
  case plateau
}

/// Options of the parameters whose name matches: '*' stands for any characters, '?' for one.
public struct ParameterGroup: Sendable {
  public var pattern: String
  public var learningRateScale: Double
  /// nil: the trainer's.
  public var weightDecay: Double?

  public init(_ pattern: String, learningRateScale: Double = 1, weightDecay: Double? = nil) {
    self.pattern = pattern
    self.learningRateScale = learningRateScale
    self.weightDecay = weightDecay
  }
}

extension Trainer {
  /// With PyTorch's meaning of the numbers; what is not set has graft's default.
  public struct Options: Sendable {
    public var loss = Loss.crossEntropy
    /// Terms, "ce:label+0.5*mse:box", instead of `loss`: kinds, and outputs of the model or targets by name. Of several
    /// targets all but the last are inputs of a step, behind the model's.
    public var losses: String?
    public var optimizer = Optimizer.adamW
    public var learningRate = 1e-3
    public var momentum = 0.0
    public var nesterov = false
    public var weightDecay = 0.0
    public var beta1 = 0.9
    /// 0, of either: the optimizer's own.
    public var beta2 = 0.0
    public var epsilon = 0.0
    /// Of all gradients together; 0: none. Of an element of a gradient; 0: none.
    public var clipNorm = 0.0
    public var clipValue = 0.0
    public var labelSmoothing = 0.0
    /// Rows with this label count for nothing.
    public var ignoreIndex: Int32 = -100
    /// Of labels; nil: the one that the labels' shape lacks, else 1.
    public var classAxis: Int?
    /// Of cross entropy and focal loss, one for each class; none: 1.
    public var classWeights: [Double] = []
    /// Binary cross entropy: of ones, for all or for each of the last axis; none: 1.
    public var positiveWeight: [Double] = []
    /// Name of the target that holds a weight for each sample.
    public var sampleWeights: String?
    public var focalGamma = 2.0
    /// Focal loss of targets: weight of ones against zeros; 0: none.
    public var focalAlpha = 0.0
    public var huberDelta = 1.0
    public var smoothL1Beta = 1.0
    /// nil: 0 of the cosine embedding, 1 of triplets.
    public var margin: Double?
    /// Of InfoNCE, 0: 0.07; of distillation, 0: 2.
    public var temperature = 0.0
    /// Another language model of the same vocabulary and context, from whose logits the model learns beside the labels,
    /// with cross entropy. It is needed no longer once the trainer is there.
    public var teacher: Model?
    /// How much the teacher counts beside the labels, 0 to 1.
    public var distillWeight = 0.5
    /// Of DPO, IPO, ORPO and KTO.
    public var preferenceBeta = 0.1
    /// KTO: of texts that are wanted, and of the others.
    public var desirableWeight = 1.0
    public var undesirableWeight = 1.0
    /// mu of a term mu/2 |w - w0|^2 that pulls to the weights that the run began with (FedProx); 0: none.
    public var proximal = 0.0
    /// Inputs of samples that are given as bytes or halves.
    public var formats: [String: InputFormat] = [:]
    /// `Trainer.evaluation` gives metrics of predictions, too.
    public var predictions = false
    /// Every op and every tensor has dispatches of its own: the same bits, slower.
    public var withoutFusion = false
    /// CTC: the class of the blank; 0 where labels do not fit the time; labels of a sample, 0: half the time.
    public var blank: Int32 = 0
    public var zeroInfinity = false
    public var targetLength = 0
    /// RMSprop.
    public var alpha = 0.99
    public var centered = false
    /// Adagrad.
    public var learningRateDecay = 0.0
    public var initialAccumulatorValue = 0.0
    /// Adafactor.
    public var beta2Decay = -0.8
    public var epsilon2 = 1e-3
    public var clipThreshold = 1.0
    /// Muon; steps of the size of AdamW's; patterns of matrices that AdamW takes.
    public var newtonSchulzSteps = 5
    public var matchesAdamW = false
    public var adamWFor: [String] = []
    /// Weight of the past in a running mean of the parameters (`Trainer.storeMean`); 0: none.
    public var ema = 0.0
    /// Learning rate of a layer over that of the layer behind it.
    public var layerDecay = 1.0
    /// NEFTune, for language models: of noise on the embeddings of tokens in training; 0: none.
    public var neftuneAlpha = 0.0
    /// Of one-cycle.
    public var rise = 0.3
    public var divFactor = 25.0
    public var finalDivFactor = 1e4
    /// Of the polynomial schedule.
    public var power = 1.0
    public var schedule = Schedule.constant
    public var warmupSteps: UInt64 = 0
    public var totalSteps: UInt64 = 0
    public var finalLearningRateFactor = 0.0
    public var stepSize: UInt64 = 1000
    public var gamma = 0.1
    /// Samples of one optimizer step, and on the device at once; 0: the whole batch, or as many as fit the budget.
    public var batch = 32
    public var microBatch = 0
    public var seed: UInt32 = 0
    /// Patterns of parameter names that are not trained.
    public var freeze: [String] = []
    /// Named dimensions other than the batch.
    public var sizes: [String: Int] = [:]
    public var groups: [ParameterGroup] = []
    /// For language models: several texts in a sample, none of which sees another.
    public var packedSequences = false
    /// Bytes of device memory; 0: no limit.
    public var budget: UInt64 = 0
    /// `openCheckpoint` will be called; takes memory for a copy of the state.
    public var checkpoints = false
    /// Names of values of the forward pass that `Trainer.fetch` gives.
    public var fetch: [String] = []
    public var precision = Precision.float32
    /// Initial, and dynamic from there; 0: 65536 for float16, else none; below 0: none.
    public var lossScale = 0.0
    public var growthInterval: UInt64 = 2000
    /// Batch norm uses its running statistics and does not move them.
    public var frozenStatistics = false
    /// A parameter takes its step as soon as its gradient is complete, so that memory never holds all gradients.
    public var optimizerInBackward = false
    /// The trainer outlives its device: see graft/train.h.
    public var recoverDevice = false
    /// Whose samples `Trainer.step(from:)` takes.
    public var data: DataSet?

    public init() {}

    /// For one call of C's. The zero that C takes for "default" is refused where it would be another number here.
    func use<R>(_ body: (inout graft_trainer_options) throws -> R) throws -> R {
      for (value, name) in [
        (learningRate, "The learning rate"), (beta1, "beta1"), (gamma, "gamma"),
      ] where value == 0 {
        throw GraftError(.invalidArgument, "\(name) is 0.")
      }
      return try Arena.use { arena in
        var o = graft_trainer_options()
        o.struct_size = MemoryLayout<graft_trainer_options>.stride
        o.loss = graft_loss(rawValue: .init(loss.rawValue))
        o.optimizer = graft_optimizer(rawValue: .init(optimizer.rawValue))
        o.learning_rate = learningRate
        o.momentum = momentum
        o.nesterov = nesterov ? 1 : 0
        o.weight_decay = weightDecay
        o.clip_norm = clipNorm
        o.label_smoothing = labelSmoothing
        o.schedule = graft_schedule(rawValue: .init(schedule.rawValue))
        o.warmup_steps = warmupSteps
        o.total_steps = totalSteps
        o.batch = try unsigned(batch, "The batch")
        o.micro_batch = try unsigned(microBatch, "The micro-batch")
        o.seed = seed
        o.freeze = freeze.isEmpty ? nil : arena.string(freeze.joined(separator: ","))
        (o.bindings, o.binding_count) = bindings(sizes, arena)
        o.packed_sequences = packedSequences ? 1 : 0
        o.budget = budget
        o.checkpoints = checkpoints ? 1 : 0
        o.fetch = fetch.isEmpty ? nil : arena.string(fetch.joined(separator: ","))
        o.precision = graft_precision(rawValue: .init(precision.rawValue))
        o.loss_scale = lossScale
        let groups = groups.map {
          graft_parameter_group(
            pattern: arena.string($0.pattern), learning_rate_scale: $0.learningRateScale,
            weight_decay: $0.weightDecay ?? 0, own_weight_decay: $0.weightDecay == nil ? 0 : 1)
        }
        o.groups = arena.array(groups)
        o.group_count = groups.count
        o.data = data?.pointer
        o.beta1 = beta1
        o.beta2 = beta2
        o.epsilon = epsilon
        o.clip_value = clipValue
        o.own_ignore_index = 1
        o.ignore_index = ignoreIndex
        o.final_lr_factor = finalLearningRateFactor
        o.step_size = stepSize
        o.gamma = gamma
        o.growth_interval = growthInterval
        o.frozen_statistics = frozenStatistics ? 1 : 0
        o.optimizer_in_backward = optimizerInBackward ? 1 : 0
        o.recover_device = recoverDevice ? 1 : 0
        try fillLoss(&o, arena)
        try fillOptimizer(&o, arena)
        (o.inputs, o.input_count) = inputFormats(formats, arena)
        o.predictions = predictions ? 1 : 0
        o.no_fusion = withoutFusion ? 1 : 0
        return try withExtendedLifetime((data, teacher)) { try body(&o) }
      }
    }

    private func fillLoss(_ o: inout graft_trainer_options, _ arena: Arena) throws {
      o.losses = arena.string(losses)
      o.own_class_axis = classAxis == nil ? 0 : 1
      o.class_axis = Int64(classAxis ?? 0)
      o.class_weights = arena.array(classWeights)
      o.class_weight_count = classWeights.count
      o.pos_weight = arena.array(positiveWeight)
      o.pos_weight_count = positiveWeight.count
      o.sample_weights = arena.string(sampleWeights)
      o.own_focal_gamma = 1
      o.focal_gamma = focalGamma
      o.focal_alpha = focalAlpha
      o.huber_delta = huberDelta
      o.own_smooth_l1_beta = 1
      o.smooth_l1_beta = smoothL1Beta
      o.own_margin = margin == nil ? 0 : 1
      o.margin = margin ?? 0
      o.temperature = temperature
      o.teacher = teacher?.pointer
      o.own_distill_weight = 1
      o.distill_weight = distillWeight
      o.preference_beta = preferenceBeta
      o.own_kto_weights = 1
      o.desirable_weight = desirableWeight
      o.undesirable_weight = undesirableWeight
      o.blank = blank
      o.zero_infinity = zeroInfinity ? 1 : 0
      o.target_length = try unsigned(targetLength, "The target length")
    }

    private func fillOptimizer(_ o: inout graft_trainer_options, _ arena: Arena) throws {
      o.alpha = alpha
      o.centered = centered ? 1 : 0
      o.lr_decay = learningRateDecay
      o.initial_accumulator_value = initialAccumulatorValue
      o.beta2_decay = beta2Decay
      o.epsilon2 = epsilon2
      o.clip_threshold = clipThreshold
      o.ns_steps = try unsigned(newtonSchulzSteps, "The number of Newton-Schulz steps")
      o.match_rms_adamw = matchesAdamW ? 1 : 0
      o.adamw_for = adamWFor.isEmpty ? nil : arena.string(adamWFor.joined(separator: ","))
      o.ema = ema
      o.layer_decay = layerDecay
      o.rise = rise
      o.div_factor = divFactor
      o.final_div_factor = finalDivFactor
      o.power = power
      o.neftune_alpha = neftuneAlpha
      o.proximal = proximal
    }
  }
}

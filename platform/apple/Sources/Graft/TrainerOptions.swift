// What a training run is made with.
import CGraft

public enum Loss: UInt32, Sendable {
  case crossEntropy, mse, l1
  /// Of logits.
  case bce
}

public enum Optimizer: UInt32, Sendable {
  case adamW, adam, sgd
  /// AdamW with its state in 8 bits.
  case adamW8bit
}

public enum Schedule: UInt32, Sendable {
  case constant
  /// To zero, or `finalLearningRateFactor`, at `totalSteps`.
  case linear, cosine
  /// Times `gamma` after each `stepSize` steps.
  case step
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
    public var optimizer = Optimizer.adamW
    public var learningRate = 1e-3
    public var momentum = 0.0
    public var nesterov = false
    public var weightDecay = 0.0
    public var beta1 = 0.9
    public var beta2 = 0.999
    public var epsilon = 1e-8
    /// Of all gradients together; 0: none. Of an element of a gradient; 0: none.
    public var clipNorm = 0.0
    public var clipValue = 0.0
    public var labelSmoothing = 0.0
    /// Rows with this label count for nothing.
    public var ignoreIndex: Int32 = -100
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
        (learningRate, "The learning rate"), (beta1, "beta1"), (beta2, "beta2"), (epsilon, "epsilon"), (gamma, "gamma"),
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
        return try withExtendedLifetime(data) { try body(&o) }
      }
    }
  }
}

// Training: one call, one optimizer step.
import CGraft
import Foundation

/// What a step or an evaluation gives back.
public struct Metrics: Sendable {
  /// Optimizer steps done.
  public let step: UInt64
  /// Mean over the samples.
  public let loss: Double
  /// 0 to 1; nil where it has no meaning.
  public let accuracy: Double?
  public let learningRate: Double
  /// Of the next step; 1 where there is none.
  public let lossScale: Double
  /// Of the whole run: they overflowed and changed nothing but the scale.
  public let skippedSteps: UInt64
  /// Of DPO, IPO, ORPO and KTO: by how much the wanted texts are rewarded more; nil of other losses.
  public let rewardMargin: Double?

  init(_ m: graft_metrics) {
    step = m.step
    loss = m.loss
    accuracy = m.accuracy.isNaN ? nil : m.accuracy
    learningRate = m.learning_rate
    lossScale = m.loss_scale
    skippedSteps = m.skipped_steps
    rewardMargin = m.reward_margin.isNaN ? nil : m.reward_margin
  }

  static var empty: graft_metrics {
    var m = graft_metrics()
    m.struct_size = MemoryLayout<graft_metrics>.stride
    return m
  }
}

/// Trains a model. Tasks and threads: see `Context`.
public final class Trainer: @unchecked Sendable {
  public let model: Model
  /// What one sample consists of: the model's inputs in order, targets but the last, and last the target, if the loss
  /// has one; shapes without the batch.
  public let sample: [TensorInfo]
  let pointer: OpaquePointer
  private let data: DataSet?
  private var kept: [AnyObject] = []  // what an open checkpoint calls and reads
  private var context: Context { model.context }

  init(_ model: Model, _ options: Options) throws {
    self.model = model
    data = options.data
    var made: OpaquePointer?
    try model.context.call { try options.use { graft_trainer_create(model.pointer, &$0, &made) } }
    let trainer = made!
    pointer = trainer
    sample = model.context.whole {
      var parts: [TensorInfo] = []
      var info = graft_tensor_info()
      while graft_trainer_sample(trainer, parts.count, &info) == GRAFT_OK { parts.append(TensorInfo(info)) }
      return parts
    }
  }

  /// How many samples these are; wrong types and sizes are refused, so that graft never reads beyond an array.
  private func samples(_ inputs: [any TensorContents], _ target: (any TensorContents)?) throws -> UInt32 {
    let wanted = sample.count - (target == nil ? 0 : 1)
    if inputs.count != wanted {
      throw GraftError(.invalidArgument, "There are \(inputs.count) inputs; the model takes \(wanted).")
    }
    var samples: Int?
    for (part, contents) in zip(sample, inputs + (target.map { [$0] } ?? [])) {
      if let type = contents.elementType, type != part.elementType {
        throw GraftError(.invalidArgument, "\"\(part.name)\" is of \(part.elementType), not of \(type).")
      }
      let bytes = contents.withContents { $0.count }
      if part.bytes == 0 || bytes % part.bytes != 0 || bytes / part.bytes != samples ?? (bytes / part.bytes) {
        throw GraftError(
          .invalidArgument,
          "\"\(part.name)\" has \(bytes) bytes; a sample has \(part.bytes)"
            + (samples.map { ", and there are \($0) samples." } ?? "."))
      }
      samples = bytes / part.bytes
    }
    return try unsigned(samples ?? 0, "The number of samples")
  }

  private func metrics(
    _ inputs: [any TensorContents], _ target: (any TensorContents)?,
    _ body: (UnsafePointer<UnsafeRawPointer?>?, Int, UnsafeRawPointer?, UInt32, inout graft_metrics) -> graft_status
  ) throws -> Metrics {
    let count = try samples(inputs, target)
    return try context.whole {
      var m = Metrics.empty
      try context.call {
        Arena.use { arena in
          withPointers(inputs + (target.map { [$0] } ?? [])) { contents in
            let pointers = arena.array(contents.prefix(inputs.count).map(\.baseAddress))
            return body(pointers, inputs.count, target == nil ? nil : contents.last!.baseAddress, count, &m)
          }
        }
      }
      return Metrics(m)
    }
  }

  /// One step on at most `Options.batch` samples: the model's inputs in order, and what the loss compares with. After an
  /// error, the same samples go on where it stopped, and nothing is done twice.
  @discardableResult
  public func step(_ inputs: [any TensorContents], _ target: some TensorContents) throws -> Metrics {
    try metrics(inputs, target) { graft_train_step(pointer, $0, $1, $2, $3, &$4) }
  }

  /// The same for a model of one input.
  @discardableResult
  public func step(_ input: some TensorContents, _ target: some TensorContents) throws -> Metrics {
    try step([input], target)
  }

  /// The same for a loss without a target.
  @discardableResult
  public func step(_ inputs: [any TensorContents]) throws -> Metrics {
    try metrics(inputs, nil) { graft_train_step(pointer, $0, $1, $2, $3, &$4) }
  }

  /// The same, suspending until the step is done. A task that is cancelled cancels the call under way on this context.
  @discardableResult
  public func step(_ inputs: [any TensorContents], _ target: some TensorContents) async throws -> Metrics {
    let count = try samples(inputs, target)
    let box = StepBox(inputs, target)
    try await Pending.begin(context, keeps: [self, box]) { user in
      graft_train_step_async(
        self.pointer, box.inputs, box.inputCount, box.target, count, box.metrics, Pending.done, user)
    }
    return Metrics(box.metrics.pointee)
  }

  @discardableResult
  public func step(_ input: some TensorContents, _ target: some TensorContents) async throws -> Metrics {
    try await step([input], target)
  }

  /// One micro-batch of the same, and with the last one the update: nil until then. Give the same samples again. For an
  /// app that may be suspended at any time.
  public func microStep(_ inputs: [any TensorContents], _ target: some TensorContents) throws -> Metrics? {
    var done: Int32 = 0
    let metrics = try metrics(inputs, target) { graft_train_micro_step(pointer, $0, $1, $2, $3, &done, &$4) }
    return done == 0 ? nil : metrics
  }

  /// Loss and accuracy without training: dropout off, running statistics used. Any number of samples.
  public func evaluate(_ inputs: [any TensorContents], _ target: some TensorContents) throws -> Metrics {
    try metrics(inputs, target) { graft_evaluate(pointer, $0, $1, $2, $3, &$4) }
  }

  public func evaluate(_ input: some TensorContents, _ target: some TensorContents) throws -> Metrics {
    try evaluate([input], target)
  }

  public func evaluate(_ inputs: [any TensorContents]) throws -> Metrics {
    try metrics(inputs, nil) { graft_evaluate(pointer, $0, $1, $2, $3, &$4) }
  }

  /// One step on the loader's next batch, by a trainer that was made for its set (`Options.data`); nil: its epochs are
  /// over.
  public func step(from loader: Loader) throws -> Metrics? {
    try context.whole {
      var more: Int32 = 0
      var m = Metrics.empty
      try context.call { graft_train_next(pointer, loader.pointer, &more, &m) }
      return more == 0 ? nil : Metrics(m)
    }
  }

  /// As `evaluate`, on all samples of a set that has no loader.
  public func evaluate(_ set: DataSet) throws -> Metrics {
    try context.whole {
      var m = Metrics.empty
      try context.call { graft_evaluate_data(pointer, set.pointer, &m) }
      return Metrics(m)
    }
  }

  /// A value of `Options.fetch` as the last step computed it, for all its samples.
  public func fetch<T: Scalar>(_ name: String, as: T.Type = Float.self) throws -> [T] {
    try context.whole {
      var data: UnsafeRawPointer?
      var bytes = 0
      var info = graft_tensor_info()
      try context.call { Arena.use { graft_trainer_fetch(pointer, $0.string(name), &data, &bytes, &info) } }
      return try copied(data, bytes, info)
    }
  }

  /// A parameter or running statistic as training has made it so far.
  public func read<T: Scalar>(_ name: String, as: T.Type = Float.self) throws -> [T] {
    try readTensor(context, name) { graft_trainer_read(pointer, $0, $1, $2, $3) }
  }

  /// Between two steps. The optimizer's state stays.
  public func write<T: Scalar>(_ name: String, _ values: [T]) throws {
    try writeTensor(context, name, values) { graft_trainer_write(pointer, $0, $1, $2) }
  }

  /// As it is now, before schedule and groups.
  public func learningRate() throws -> Double {
    var rate = 0.0
    try context.call { graft_trainer_learning_rate(pointer, &rate) }
    return rate
  }

  /// From the next step on. Between two steps.
  public func setLearningRate(_ rate: Double) throws {
    try context.call { graft_trainer_set_learning_rate(pointer, rate) }
  }

  /// Copies the trained parameters into the model, for `Model.save` and for new sessions.
  public func store() throws { try context.call { graft_trainer_store(pointer) } }

  /// The same with the running means of the parameters (`Options.ema`), which evaluations are of.
  public func storeMean() throws { try context.call { graft_trainer_store_ema(pointer) } }

  public func memory() throws -> Memory { try Memory.of(context) { graft_trainer_memory(pointer, &$0) } }

  /// Between two steps: plans anew for another budget in bytes (0: none); the run goes on where it is.
  public func setBudget(_ bytes: UInt64) throws { try context.call { graft_trainer_set_budget(pointer, bytes) } }

  /// The same for a budget that gives so many bytes back: for memory warnings.
  public func trim(_ bytes: UInt64) throws { try context.call { graft_trainer_trim(pointer, bytes) } }

  /// Gives all device memory back, in the middle of a step too: for when the app goes to the background. The next call
  /// that needs it, or `resume`, builds everything again, and the run goes on to the same bits.
  public func pause() throws { try context.call { graft_trainer_pause(pointer) } }
  public func resume() throws { try context.call { graft_trainer_resume(pointer) } }

  /// How often the device was short of memory and training went on by itself with another plan.
  public func shortages() throws -> UInt64 {
    var count: UInt64 = 0
    try context.call { graft_trainer_shortages(pointer, &count) }
    return count
  }

  /// Keeps the run in a folder from now on, and with `resume` goes on from what is there.
  @discardableResult
  public func openCheckpoint(_ options: CheckpointOptions) throws -> CheckpointInfo {
    try context.whole {
      var info = graft_checkpoint_info()
      info.struct_size = MemoryLayout<graft_checkpoint_info>.stride
      let box = options.cipher.map(CipherBox.init)
      // After an error, too: until the trainer is gone.
      if let box { kept.append(box) }
      if let loader = options.loader { kept.append(loader) }
      try context.call { try options.use(box) { graft_checkpoint_open(pointer, &$0, &info) } }
      return CheckpointInfo(info)
    }
  }

  /// A snapshot of now: on storage when it returns. A tagged one stays until its tag is taken away.
  public func saveCheckpoint(tag: String? = nil) throws {
    try context.call { Arena.use { graft_checkpoint_save(pointer, $0.string(tag)) } }
  }

  /// Waits until all is on storage and closes the folder. Takes no snapshot.
  public func closeCheckpoint() throws { try context.call { graft_checkpoint_close(pointer) } }

  /// Bytes of the app's own in each further snapshot (its place in the data, say).
  public func setCheckpointData(_ data: Data) throws {
    try context.call { data.withUnsafeBytes { graft_checkpoint_set_data(pointer, 0, $0.baseAddress, $0.count) } }
  }

  /// What was set, or saved with the snapshot that was resumed; nil where nothing was.
  public func checkpointData() throws -> Data? {
    try context.whole {
      var data: UnsafeRawPointer?
      var bytes = 0
      do {
        try context.call { graft_checkpoint_data(pointer, 0, &data, &bytes) }
      } catch let error as GraftError where error.kind == .notFound {
        return nil
      }
      return data.map { Data(bytes: $0, count: bytes) } ?? Data()
    }
  }

  /// A new run from old weights: a snapshot's (number or tag; nil: the newest) parameters, no optimizer state.
  public func warmStart(_ folder: URL, snapshot: String? = nil, cipher: (any Cipher)? = nil) throws {
    let box = cipher.map(CipherBox.init)
    try context.call {
      Arena.use { arena in
        withCipher(box) { graft_warm_start(pointer, arena.string(folder.path), arena.string(snapshot), $0) }
      }
    }
  }

  deinit { context.whole { graft_trainer_destroy(pointer) } }
}

/// Samples of a step that is not waited for, in memory that stays where it is.
private final class StepBox: @unchecked Sendable {
  let inputs: UnsafeMutablePointer<UnsafeRawPointer?>
  let inputCount: Int
  let target: UnsafeRawPointer?
  let metrics = UnsafeMutablePointer<graft_metrics>.allocate(capacity: 1)
  private var blocks: [UnsafeMutableRawPointer] = []

  init(_ contents: [any TensorContents], _ last: any TensorContents) {
    func copy(_ bytes: UnsafeRawBufferPointer) -> UnsafeMutableRawPointer {
      let block = UnsafeMutableRawPointer.allocate(byteCount: max(bytes.count, 1), alignment: 16)
      if let from = bytes.baseAddress { block.copyMemory(from: from, byteCount: bytes.count) }
      return block
    }
    inputCount = contents.count
    inputs = .allocate(capacity: max(contents.count, 1))
    blocks = (contents + [last]).map { $0.withContents(copy) }
    for i in 0..<inputCount { inputs[i] = UnsafeRawPointer(blocks[i]) }
    target = UnsafeRawPointer(blocks[inputCount])
    metrics.initialize(to: Metrics.empty)
  }

  deinit {
    for block in blocks { block.deallocate() }
    inputs.deallocate()
    metrics.deallocate()
  }
}

// Running a model, and gradients of anything in it.
import CGraft
import Foundation

/// How one f32 input of a session is given: bytes of images and halves, which the device turns into numbers.
public struct InputFormat: Sendable {
  public enum Element: UInt32, Sendable { case uint8, int8, float16, bfloat16 }
  public var element: Element
  /// [N, H, W, C] where the model takes [N, C, H, W].
  public var channelsLast: Bool
  /// The model gets x * scale + offset: none, one number, or one for each channel, at most four.
  public var scale: [Float]
  public var offset: [Float]

  public init(_ element: Element, channelsLast: Bool = false, scale: [Float] = [], offset: [Float] = []) {
    self.element = element
    self.channelsLast = channelsLast
    self.scale = scale
    self.offset = offset
  }
}

/// The same as C takes it.
func inputFormats(_ formats: [String: InputFormat], _ arena: Arena) -> (UnsafePointer<graft_input_format>?, Int) {
  let all = formats.sorted { $0.key < $1.key }.map { name, format in
    graft_input_format(
      name: arena.string(name), element: graft_element(rawValue: .init(format.element.rawValue)),
      channels_last: format.channelsLast ? 1 : 0, scale: arena.array(format.scale),
      scale_count: format.scale.count, offset: arena.array(format.offset), offset_count: format.offset.count)
  }
  return (arena.array(all), all.count)
}

/// A model planned and recorded for one set of sizes. Tasks and threads: see `Context`.
public final class Session: @unchecked Sendable {
  public struct Options: Sendable {
    /// Every named dimension of the inputs, as in ["batch": 1]; with `resizable` the largest sizes.
    public var sizes: [String: Int] = [:]
    /// Bytes of device memory; 0: no limit. `.outOfMemory` where the plan needs more.
    public var budget: UInt64 = 0
    /// Differentiate this value; nil: forward only.
    public var of: String?
    /// With respect to these: outputs "grad:NAME".
    public var wrt: [String] = []
    public var precision = Precision.float32
    /// Float inputs may hold NaN and infinity, which are an error otherwise.
    public var allowNonFinite = false
    /// Values on the way, by the source model's names, that are outputs as well.
    public var fetch: [String] = []
    /// With `of`: batch norm by the batch's statistics, dropout at work; without the model's outputs.
    public var trainMode = false
    /// `resize` will be called.
    public var resizable = false
    /// Inputs that are given in fewer than 32 bits.
    public var formats: [String: InputFormat] = [:]

    /// One of the model's signatures: its outputs and no others; nil: all outputs.
    public var signature: String?
    /// A call on which the device is lost opens it anew and is done there, to the same bits.
    public var recoverDevice = false

    public init(sizes: [String: Int] = [:]) { self.sizes = sizes }

    func filled(_ arena: Arena) -> graft_session_options {
      var o = graft_session_options()
      o.struct_size = MemoryLayout<graft_session_options>.stride
      (o.bindings, o.binding_count) = bindings(sizes, arena)
      o.budget = budget
      o.of = arena.string(of)
      o.wrt = arena.strings(wrt)
      o.wrt_count = wrt.count
      o.precision = graft_precision(rawValue: .init(precision.rawValue))
      o.allow_non_finite = allowNonFinite ? 1 : 0
      o.fetch = arena.strings(fetch)
      o.fetch_count = fetch.count
      o.train_mode = trainMode ? 1 : 0
      o.resizable = resizable ? 1 : 0
      o.signature = arena.string(signature)
      o.recover_device = recoverDevice ? 1 : 0
      (o.inputs, o.input_count) = inputFormats(formats, arena)
      return o
    }
  }

  public let model: Model
  let pointer: OpaquePointer
  private var context: Context { model.context }

  init(_ model: Model, _ options: Options) throws {
    self.model = model
    var made: OpaquePointer?
    try model.context.call {
      Arena.use { arena in
        var o = options.filled(arena)
        return graft_session_create(model.pointer, &o, &made)
      }
    }
    pointer = made!
  }

  /// Copies the contents; they stay from run to run. An index of no row, NaN and infinity are refused.
  public func setInput(_ name: String, _ contents: some TensorContents) throws {
    if let type = contents.elementType, let input = model.inputs.first(where: { $0.name == name }),
      input.elementType != type
    {
      throw GraftError(.invalidArgument, "The input \"\(name)\" is of \(input.elementType), not of \(type).")
    }
    try context.call {
      Arena.use { arena in
        contents.withContents { graft_session_set_input(pointer, arena.string(name), $0.baseAddress, $0.count) }
      }
    }
  }

  /// Blocks until the outputs are there.
  public func run() throws { try context.call { graft_session_run(pointer) } }

  /// Suspends until the outputs are there. A task that is cancelled cancels the call under way on this context.
  public func run() async throws {
    try await Pending.begin(context, keeps: [self]) { graft_session_run_async(self.pointer, Pending.done, $0) }
  }

  /// A copy of an output of the last run, or of "grad:NAME".
  public func output<T: Scalar>(_ name: String, as: T.Type = Float.self) throws -> [T] {
    try readOutput(name) { try copied($0, $1, $2) }
  }

  /// The same in graft's own memory, for as long as `body` runs.
  public func withOutput<R>(_ name: String, _ body: (UnsafeRawBufferPointer, TensorInfo) throws -> R) throws -> R {
    try readOutput(name) { try body(UnsafeRawBufferPointer(start: $0, count: $1), TensorInfo($2)) }
  }

  private func readOutput<R>(
    _ name: String, _ body: (UnsafeRawPointer?, Int, graft_tensor_info) throws -> R
  ) throws -> R {
    try context.whole {
      var data: UnsafeRawPointer?
      var bytes = 0
      var info = graft_tensor_info()
      try context.call { Arena.use { graft_session_output(pointer, $0.string(name), &data, &bytes, &info) } }
      return try body(data, bytes, info)
    }
  }

  /// Other sizes for named dimensions, each from 1 to what the session was made with, in the same memory. All inputs
  /// are to be set again. It plans when sizes come for the first time and only switches when they come again.
  public func resize(_ sizes: [String: Int]) throws {
    try context.call {
      Arena.use { arena in
        let (list, count) = bindings(sizes, arena)
        return graft_session_resize(pointer, list, count)
      }
    }
  }

  /// Reads an input from, or writes an output to, the app's own memory from now on, without a copy; nil: as before. It
  /// is borrowed until then, or until the session is gone; its address and size are multiples of a page. On Apple's
  /// systems: an IOSurface's base address, while it is locked, or an MTLBuffer's contents. `.unsupported` where the
  /// driver cannot take such memory.
  public func bind(_ name: String, to memory: UnsafeMutableRawBufferPointer?, offset: Int = 0) throws {
    try context.call {
      try Arena.use { arena in
        guard let memory else { return graft_session_bind(pointer, arena.string(name), nil) }
        var external = graft_external_memory()
        external.struct_size = MemoryLayout<graft_external_memory>.stride
        external.kind = GRAFT_EXTERNAL_HOST
        external.pointer = memory.baseAddress
        external.bytes = UInt64(memory.count)
        external.offset = try unsigned(offset, "The offset")
        return graft_session_bind(pointer, arena.string(name), &external)
      }
    }
  }

  public func memory() throws -> Memory { try Memory.of(context) { graft_session_memory(pointer, &$0) } }

  /// Gives all device memory back; the next call that needs the device, or `resume`, builds everything again.
  public func pause() throws { try context.call { graft_session_pause(pointer) } }
  public func resume() throws { try context.call { graft_session_resume(pointer) } }

  /// Swaps the adapters of this session for those of a file; nil: runs as without any. Nothing is planned anew.
  public func swapAdapters(_ file: URL?) throws {
    try context.call { Arena.use { graft_session_swap_adapters(pointer, $0.string(file?.path)) } }
  }

  /// The same from memory.
  public func swapAdapters(_ file: Data) throws {
    try context.call { withMemory(file) { graft_session_swap_adapters_source(pointer, $0) } }
  }

  deinit { context.whole { graft_session_destroy(pointer) } }
}

/// Gradients of any number of samples, in micro-batches that keep to a budget.
public final class Gradients: @unchecked Sendable {
  public struct Options: Sendable {
    /// An output or any value; with respect to inputs, parameters or any values.
    public var of: String
    public var wrt: [String]
    /// Every named dimension; that of the batch is the number of samples in all.
    public var sizes: [String: Int]
    public var budget: UInt64 = 0
    /// Samples on the device at once; 0: as many as fit.
    public var microBatch = 0
    /// Gradients of parameters for each sample, along a new first axis, not summed.
    public var perSample = false
    /// As a training step computes it, dropout at work.
    public var trainMode = false

    public init(of: String, wrt: [String], sizes: [String: Int] = [:]) {
      self.of = of
      self.wrt = wrt
      self.sizes = sizes
    }
  }

  private let context: Context
  private let pointer: OpaquePointer

  /// `inputs`: the model's inputs by name, and "cotangent" where `of` has more than one element.
  public init(_ model: Model, _ options: Options, inputs: [String: any TensorContents]) throws {
    context = model.context
    var made: OpaquePointer?
    let named = inputs.sorted { $0.key < $1.key }
    try model.context.call {
      try Arena.use { arena in
        try withPointers(named.map(\.value)) { contents in
          var o = graft_gradient_options()
          o.struct_size = MemoryLayout<graft_gradient_options>.stride
          o.of = arena.string(options.of)
          o.wrt = arena.strings(options.wrt)
          o.wrt_count = options.wrt.count
          (o.bindings, o.binding_count) = bindings(options.sizes, arena)
          o.budget = options.budget
          o.micro_batch = try unsigned(options.microBatch, "The micro-batch")
          o.per_sample = options.perSample ? 1 : 0
          o.train_mode = options.trainMode ? 1 : 0
          let data = zip(named, contents).map {
            graft_data(name: arena.string($0.key), data: $1.baseAddress, bytes: $1.count)
          }
          return graft_gradients_compute(model.pointer, &o, arena.array(data), data.count, &made)
        }
      }
    }
    pointer = made!
  }

  public func callAsFunction(_ wrt: String) throws -> [Float] {
    try context.whole {
      var data: UnsafeRawPointer?
      var bytes = 0
      var info = graft_tensor_info()
      try context.call { Arena.use { graft_gradients_get(pointer, $0.string(wrt), &data, &bytes, &info) } }
      return try copied(data, bytes, info)
    }
  }

  deinit { context.whole { graft_gradients_destroy(pointer) } }
}

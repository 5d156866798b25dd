// What training changed, to be sent and averaged: federated rounds.
import CGraft
import Foundation

/// What training changed, of one client or averaged over several. Tasks and threads: see `Context`.
public final class Delta: @unchecked Sendable {
  /// How its numbers are kept: `int8` in blocks with a scale, `fixed` as integers modulo 2^32, for secure aggregation.
  public enum Coding: UInt32, Sendable { case float32, bfloat16, int8, fixed }

  public struct Options: Sendable {
    /// That training used: what an average weighs by.
    public var samples: UInt64 = 1
    /// Optimizer steps.
    public var localSteps: UInt64 = 0
    public var coding = Coding.float32
    /// Of `.fixed`, the same with all clients; and clients whose integers must fit in a sum.
    public var fixedBits = 8
    public var room = 1024
    /// The whole delta is scaled to this L2 norm where it is longer; 0: not.
    public var clipNorm = 0.0
    /// Normal noise of so many times `clipNorm`, from the system's entropy.
    public var noise = 0.0
    /// A file that keeps what coding lost, to be added to the next round's delta.
    public var residual: URL?
    public init() {}
  }

  public struct AverageOptions: Sendable {
    /// All clients weigh the same; otherwise by their samples.
    public var equal = false
    /// Of adapters, what their matrices multiply to is averaged and factored again, to `rank`; 0: the largest of them.
    public var products = false
    public var rank = 0
    /// Normal noise on the clients' sum, of so many times `clipNorm`, what each was clipped to; with `equal`.
    public var noise = 0.0
    public var clipNorm = 0.0
    public init() {}
  }

  /// What a delta says of itself.
  public struct Info: Sendable {
    /// The weights that it was made for, as 32 hexadecimal digits, and their file's name.
    public let base, baseFile: String
    /// It holds whole adapters, not changes.
    public let ofAdapters: Bool
    /// Of all clients.
    public let samples: UInt64
    public let clients: Int
    public let localSteps: UInt64
    /// Of adapters; 0: none.
    public let rank: Int
    public let coding: Coding
    /// Before it was clipped; 0 as the other: it was not.
    public let norm, clipNorm: Double
    /// Standard deviation of the noise in each number.
    public let noise: Double
    /// Of an average of products: share of the exact average's squared norm that its matrices hold.
    public let kept: Double
    /// Of `.fixed`.
    public let fixedBits: Int
    public let tensors: Int
    public let numbers: UInt64
  }

  private let context: Context
  private let pointer: OpaquePointer

  private init(_ context: Context, _ make: (inout OpaquePointer?) throws -> graft_status) throws {
    self.context = context
    var made: OpaquePointer?
    try context.call { try make(&made) }
    pointer = made!
  }

  /// `updated` less `base`: two models of one graph. Where `updated` has adapters, they are the delta.
  public convenience init(from base: Model, to updated: Model, _ options: Options = .init()) throws {
    try self.init(updated.context) { made in
      try Arena.use { arena in
        var o = graft_delta_options()
        o.struct_size = MemoryLayout<graft_delta_options>.stride
        graft_delta_options_init(&o)
        o.samples = options.samples
        o.local_steps = options.localSteps
        o.coding = graft_delta_coding(rawValue: .init(options.coding.rawValue))
        o.fixed_bits = try unsigned(options.fixedBits, "fixedBits")
        o.room = try unsigned(options.room, "room")
        o.clip_norm = options.clipNorm
        o.noise = options.noise
        o.residual = arena.string(options.residual?.path)
        return graft_delta_make(base.pointer, updated.pointer, &o, &made)
      }
    }
  }

  public convenience init(_ context: Context, file: URL) throws {
    try self.init(context) { made in Arena.use { graft_delta_load(context.pointer, $0.string(file.path), &made) } }
  }

  /// From the bytes of a file.
  public convenience init(_ context: Context, data: Data) throws {
    try self.init(context) { made in withMemory(data) { graft_delta_load_source(context.pointer, $0, &made) } }
  }

  /// Of deltas of one base, which stay as they are. A tensor that a delta lacks did not change there.
  public convenience init(averageOf deltas: [Delta], in context: Context, _ options: AverageOptions = .init()) throws {
    try self.init(context) { made in
      try Arena.use { arena in
        var o = graft_average_options()
        o.struct_size = MemoryLayout<graft_average_options>.stride
        o.equal = options.equal ? 1 : 0
        o.products = options.products ? 1 : 0
        o.rank = try unsigned(options.rank, "The rank")
        o.noise = options.noise
        o.clip_norm = options.clipNorm
        let pointers = arena.array(deltas.map { Optional($0.pointer) })
        return withExtendedLifetime(deltas) {
          graft_delta_average(context.pointer, pointers, deltas.count, &o, &made)
        }
      }
    }
  }

  public func info() throws -> Info {
    try context.whole {
      var i = graft_delta_info()
      i.struct_size = MemoryLayout<graft_delta_info>.stride
      try context.call { graft_delta_describe(pointer, &i) }
      return Info(
        base: String(cString: i.base), baseFile: String(cString: i.base_file), ofAdapters: i.of_adapters != 0,
        samples: i.samples, clients: Int(i.clients), localSteps: i.local_steps, rank: Int(i.rank),
        coding: Coding(rawValue: UInt32(i.coding.rawValue)) ?? .float32, norm: i.norm, clipNorm: i.clip_norm,
        noise: i.noise, kept: i.kept, fixedBits: Int(i.fixed_bits), tensors: i.tensors, numbers: i.numbers)
    }
  }

  /// In the order of names.
  public func tensors() throws -> [TensorInfo] {
    try context.whole {
      try (0..<info().tensors).map { index in
        var tensor = graft_tensor_info()
        try context.call { graft_delta_tensor(pointer, index, &tensor) }
        return TensorInfo(tensor)
      }
    }
  }

  /// Decoded numbers of a tensor, row-major.
  public func numbers(_ name: String) throws -> [Float] {
    try context.whole {
      let count = try tensors().first { $0.name == name }?.shape.reduce(1, *) ?? 0
      return try [Float](unsafeUninitializedCapacity: max(count, 1)) { buffer, initialized in
        try context.call { Arena.use { graft_delta_numbers(pointer, $0.string(name), buffer.baseAddress, count) } }
        initialized = count
      }
    }
  }

  /// The integers of a tensor of `.fixed`, in place, for as long as `body` runs: the app adds its masks to them before it
  /// sends them. `body` must not call graft with this context.
  public func withIntegers<R>(_ name: String, _ body: (UnsafeMutableBufferPointer<UInt32>) throws -> R) throws -> R {
    try context.whole {
      var integers: UnsafeMutablePointer<UInt32>?
      var count = 0
      try context.call { Arena.use { graft_delta_integers(pointer, $0.string(name), &integers, &count) } }
      return try body(UnsafeMutableBufferPointer(start: integers, count: count))
    }
  }

  /// Writes a file, atomically.
  public func save(_ file: URL) throws {
    try context.call { Arena.use { graft_delta_save(pointer, $0.string(file.path)) } }
  }

  /// The file's bytes, to send.
  public func data() throws -> Data {
    try context.whole {
      var data: UnsafeRawPointer?
      var bytes = 0
      try context.call { graft_delta_bytes(pointer, &data, &bytes) }
      return data.map { Data(bytes: $0, count: bytes) } ?? Data()
    }
  }

  /// Adds it, times `rate`, to the model, which must have no sessions, generators or trainers.
  public func apply(to model: Model, rate: Double = 1) throws {
    try context.call { graft_delta_apply(model.pointer, pointer, rate) }
  }

  /// What rounds with noise cost a client's privacy: epsilon at `delta`, where each round takes each client with
  /// probability `share`, clips its delta, and adds noise of `noise` times the norm clipped to.
  public static func privacy(
    _ context: Context, noise: Double, share: Double, rounds: UInt64, delta: Double
  ) throws -> Double {
    var epsilon = 0.0
    try context.call { graft_delta_privacy(context.pointer, noise, share, rounds, delta, &epsilon) }
    return epsilon
  }

  deinit { context.whole { graft_delta_destroy(pointer) } }
}

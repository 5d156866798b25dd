// Texts as vectors, and how much the columns of matrices matter to texts.
import CGraft
import Foundation

/// Which tokens' vectors stand for a text; `default`: as the model's file says, else the mean.
public enum Pooling: UInt32, Sendable { case `default`, mean, last, cls }

/// Turns texts into vectors with a language model or an encoder. Tasks and threads: see `Context`.
public final class Embedder: @unchecked Sendable {
  public struct Options: Sendable {
    public var pooling = Pooling.default
    /// Vectors are brought to length 1; otherwise only where the model's file says so.
    public var normalize = false
    /// Texts beyond `length` are cut at their end; otherwise they are refused.
    public var cut = false
    /// Most tokens of a text; 0: the model's own context, at most 512.
    public var length = 0
    /// Texts on the device at once.
    public var batch = 8
    /// Name of the value that is pooled; nil: the last hidden state.
    public var of: String?
    public var precision = Precision.float32
    /// Bytes of device memory; 0: no limit.
    public var budget: UInt64 = 0
    /// Goes on where the device was lost.
    public var recoverDevice = false
    /// First numbers of each vector that remain, for models trained so (Matryoshka); 0: all.
    public var dimensions = 0
    public init() {}
  }

  public let model: Model
  private let pointer: OpaquePointer
  private var context: Context { model.context }

  init(_ model: Model, _ options: Options) throws {
    self.model = model
    var made: OpaquePointer?
    try model.context.call {
      try Arena.use { arena in
        var o = graft_embedder_options()
        o.struct_size = MemoryLayout<graft_embedder_options>.stride
        graft_embedder_options_init(&o)
        o.pooling = graft_pooling(rawValue: .init(options.pooling.rawValue))
        o.normalize = options.normalize ? 1 : 0
        o.cut = options.cut ? 1 : 0
        o.length = try unsigned(options.length, "The length")
        o.batch = try unsigned(options.batch, "The batch")
        o.of = arena.string(options.of)
        o.precision = graft_precision(rawValue: .init(options.precision.rawValue))
        o.budget = options.budget
        o.recover_device = options.recoverDevice ? 1 : 0
        o.dimensions = try unsigned(options.dimensions, "The number of dimensions")
        return graft_embedder_create(model.pointer, &o, &made)
      }
    }
    pointer = made!
  }

  /// Numbers of a vector.
  public var width: Int { context.whole { graft_embedder_width(pointer) } }

  /// The most tokens of a text.
  public var length: Int { context.whole { graft_embedder_length(pointer) } }

  /// A vector for each text, which depends on no other text.
  public func embed(_ texts: [String]) throws -> [[Float]] {
    try vectors(texts.count) { arena, vectors in graft_embed(pointer, arena.strings(texts), texts.count, &vectors, nil) }
  }

  /// The same, and how many tokens each text had before it was cut.
  public func embedCounting(_ texts: [String]) throws -> (vectors: [[Float]], tokens: [Int]) {
    var counts: UnsafePointer<UInt32>?
    return try context.whole {
      let made = try vectors(texts.count) { arena, vectors in
        graft_embed(pointer, arena.strings(texts), texts.count, &vectors, &counts)
      }
      return (made, UnsafeBufferPointer(start: counts, count: texts.count).map { Int($0) })
    }
  }

  /// The same of tokens, as `Tokenizer.encode` gives them.
  public func embed(_ texts: [[Int32]]) throws -> [[Float]] {
    try vectors(texts.count) { arena, vectors in
      graft_embed_tokens(
        pointer, arena.array(texts.map { arena.array($0) }), arena.array(texts.map(\.count)), texts.count, &vectors)
    }
  }

  private func vectors(
    _ count: Int, _ body: (Arena, inout UnsafePointer<Float>?) -> graft_status
  ) throws -> [[Float]] {
    try context.whole {
      var numbers: UnsafePointer<Float>?
      try context.call { Arena.use { body($0, &numbers) } }
      let width = graft_embedder_width(pointer)
      return (0..<count).map { Array(UnsafeBufferPointer(start: numbers! + $0 * width, count: width)) }
    }
  }

  public func memory() throws -> Memory { try Memory.of(context) { graft_embedder_memory(pointer, &$0) } }

  deinit { context.whole { graft_embedder_destroy(pointer) } }
}

/// Adds up, over texts, the squares of what each column of each matrix is multiplied with. Tasks and threads: see
/// `Context`.
public final class Importance: @unchecked Sendable {
  public struct Options: Sendable {
    /// Tokens of a chunk, each of which begins anew; 0: the model's own context, at most 512.
    public var context = 0
    /// Most chunks of all texts together; 0: no limit.
    public var chunks: UInt64 = 0
    /// Of the head's matrix, too.
    public var head = false
    /// Special tokens that are spelled out in texts become these.
    public var parseSpecial = false
    /// Bytes of device memory; 0: no limit.
    public var budget: UInt64 = 0
    /// Goes on where the device was lost.
    public var recoverDevice = false
    public init() {}
  }

  /// One matrix.
  public struct Matrix: Sendable {
    /// Of the weight.
    public let name: String
    /// For each column, what it was multiplied with, squared.
    public let sums: [Double]
    /// Over which they were added up.
    public let tokens: UInt64
  }

  /// How far it is.
  public struct Progress: Sendable {
    /// Tokens of a chunk.
    public let context: Int
    /// Chunks that were computed, and that were not.
    public let chunks, waiting: UInt64
    /// Tokens of texts that are in no chunk.
    public let dropped: UInt64
  }

  public let model: Model
  private let pointer: OpaquePointer
  private var context: Context { model.context }

  init(_ model: Model, _ options: Options) throws {
    self.model = model
    var made: OpaquePointer?
    try model.context.call {
      var o = graft_importance_options()
      o.struct_size = MemoryLayout<graft_importance_options>.stride
      o.context = try unsigned(options.context, "The context")
      o.chunks = options.chunks
      o.head = options.head ? 1 : 0
      o.parse_special = options.parseSpecial ? 1 : 0
      o.budget = options.budget
      o.recover_device = options.recoverDevice ? 1 : 0
      return graft_importance_create(model.pointer, &o, &made)
    }
    pointer = made!
  }

  /// Cuts a text into chunks, which wait: how many wait now.
  @discardableResult
  public func add(_ text: String) throws -> UInt64 {
    try waiting { waiting in
      var text = text
      return text.withUTF8 { utf8 in
        utf8.withMemoryRebound(to: CChar.self) { graft_importance_add(pointer, $0.baseAddress, $0.count, &waiting) }
      }
    }
  }

  /// The same of tokens.
  @discardableResult
  public func add(_ tokens: [Int32]) throws -> UInt64 {
    try waiting { graft_importance_add_tokens(pointer, tokens, tokens.count, &$0) }
  }

  /// Computes one chunk: how many still wait.
  @discardableResult
  public func step() throws -> UInt64 { try waiting { graft_importance_step(pointer, &$0) } }

  private func waiting(_ body: (inout UInt64) -> graft_status) throws -> UInt64 {
    var count: UInt64 = 0
    try context.call { body(&count) }
    return count
  }

  public func progress() throws -> Progress {
    var info = graft_importance_info()
    info.struct_size = MemoryLayout<graft_importance_info>.stride
    try context.call { graft_importance_describe(pointer, &info) }
    return Progress(context: Int(info.context), chunks: info.chunks, waiting: info.waiting, dropped: info.dropped)
  }

  /// The sums so far, in the model's order.
  public var matrices: [Matrix] {
    context.whole {
      (0..<graft_importance_count(pointer)).compactMap { index in
        var m = graft_importance_matrix()
        guard graft_importance_at(pointer, index, &m) == GRAFT_OK else { return nil }
        return Matrix(
          name: String(cString: m.name), sums: Array(UnsafeBufferPointer(start: m.sums, count: m.columns)),
          tokens: m.tokens)
      }
    }
  }

  public func memory() throws -> Memory { try Memory.of(context) { graft_importance_memory(pointer, &$0) } }

  deinit { context.whole { graft_importance_destroy(pointer) } }
}

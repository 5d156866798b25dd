// Data sets: files, memory, or what a function makes; shuffled, cut into batches and read ahead.
import CGraft
import Foundation

/// One tensor of a sample.
public struct Field: Sendable {
  public var name: String
  public var elementType: ElementType
  /// Of one sample: without the batch.
  public var shape: [Int]
  /// What the loss compares with; labels stand behind the others.
  public var isLabel: Bool
  /// How much a sample counts for, one float32 of 0 or more; it stands last.
  public var isWeight = false
  /// What the numbers of a label stand for; empty where nobody says.
  public var classes: [String] = []

  public init(_ name: String, _ elementType: ElementType, _ shape: [Int], isLabel: Bool = false) {
    self.name = name
    self.elementType = elementType
    self.shape = shape
    self.isLabel = isLabel
  }

  var bytes: Int { shape.reduce(elementType.bytes, *) }

  init(_ field: graft_field) {
    self.init(
      String(cString: field.name), ElementType(rawValue: UInt32(field.dtype.rawValue)) ?? .float32,
      withUnsafeBytes(of: field.dims) { dims in dims.bindMemory(to: Int64.self).prefix(Int(field.rank)).map { Int($0) } },
      isLabel: field.is_label == 1)
    isWeight = field.is_label == 2
  }

  func c(_ arena: Arena) throws -> graft_field {
    if shape.count > Int(GRAFT_MAX_RANK) {
      throw GraftError(.invalidArgument, "\"\(name)\" has \(shape.count) axes; at most \(GRAFT_MAX_RANK) are possible.")
    }
    var field = graft_field()
    field.name = arena.string(name)
    field.dtype = graft_dtype(rawValue: .init(elementType.rawValue))
    field.rank = UInt32(shape.count)
    withUnsafeMutableBytes(of: &field.dims) { dims in
      for (axis, size) in shape.enumerated() { dims.storeBytes(of: Int64(size), toByteOffset: axis * 8, as: Int64.self) }
    }
    field.is_label = isWeight ? 2 : isLabel ? 1 : 0
    return field
  }
}

/// Samples by number. Whoever uses it keeps it.
public final class DataSet: @unchecked Sendable {
  /// Fills a place for each field with sample `index`, on graft's reading thread; false: there is none, for the data
  /// ends before. The same index gives the same sample, in whatever order they are asked for. It must not call graft.
  public typealias Read = @Sendable (UInt64, [UnsafeMutableRawBufferPointer]) throws -> Bool

  /// What records of "jsonl:FILE" are: see docs/reference/data.md.
  public enum Preference: UInt32, Sendable { case none, pairs, labelled, groups }

  public struct Options: Sendable {
    /// That the data is for: text becomes its tokens, labels its classes; nil: nothing is known.
    public var model: Model?
    /// Samples as they are, without augmentation, and labels of the model's classes alone.
    public var evaluation = false
    /// Of samples of text, in tokens.
    public var length = 0
    /// All samples of text say where their texts begin: `Trainer.Options.packedSequences`.
    public var sequenceStarts = false
    /// Samples from `first` on alone, `count` of them; 0: to the end.
    public var first: UInt64 = 0
    public var count: UInt64 = 0
    /// Samples hold several texts of `length` tokens each.
    public var preference = Preference.none
    /// Of groups.
    public var pooling = Pooling.default
    public init(for model: Model? = nil) { self.model = model }
  }

  private final class Reader: Sendable {
    let sizes: [Int]
    let read: Read
    init(_ sizes: [Int], _ read: @escaping Read) {
      self.sizes = sizes
      self.read = read
    }
  }

  let context: Context
  let pointer: OpaquePointer
  private let keeps: [Any]

  /// "idx:IMAGES,LABELS", "csv:FILE?label=COLUMN", "npy:X.npy,Y.npy", as docs/reference/data.md has them.
  public init(_ context: Context, spec: String) throws {
    self.context = context
    keeps = []
    pointer = try DataSet.make(context) { made, arena in graft_data_open(context.pointer, arena.string(spec), &made) }
  }

  /// The same for a model, also "text:FILE", "jsonl:FILE" and "folder:DIR".
  public init(_ context: Context, spec: String, _ options: Options) throws {
    self.context = context
    keeps = []
    pointer = try DataSet.make(context) { made, arena in
      var o = graft_data_options()
      o.struct_size = MemoryLayout<graft_data_options>.stride
      o.model = options.model?.pointer
      o.evaluation = options.evaluation ? 1 : 0
      o.length = Int64(options.length)
      o.sequence_starts = options.sequenceStarts ? 1 : 0
      o.first = options.first
      o.count = options.count
      o.preference = graft_preference(rawValue: .init(options.preference.rawValue))
      o.pooling = graft_pooling(rawValue: .init(options.pooling.rawValue))
      return withExtendedLifetime(options.model) { graft_data_open_with(context.pointer, arena.string(spec), &o, &made) }
    }
  }

  /// Samples in memory: the contents of each field, one sample after another.
  public init(_ context: Context, _ fields: [Field], _ contents: [any TensorContents]) throws {
    self.context = context
    if fields.isEmpty || fields.count != contents.count {
      throw GraftError(.invalidArgument, "There are \(fields.count) fields and contents of \(contents.count).")
    }
    var samples: Int?
    var blocks: [Block] = []
    for (field, content) in zip(fields, contents) {
      if let type = content.elementType, type != field.elementType {
        throw GraftError(.invalidArgument, "\"\(field.name)\" is of \(field.elementType), not of \(type).")
      }
      let block = content.withContents { Block($0) }
      if field.bytes <= 0 || block.bytes % field.bytes != 0 || block.bytes / field.bytes != samples ?? (block.bytes / field.bytes) {
        throw GraftError(.invalidArgument, "\"\(field.name)\" has \(block.bytes) bytes; a sample has \(field.bytes).")
      }
      samples = block.bytes / field.bytes
      blocks.append(block)
    }
    keeps = blocks
    pointer = try DataSet.make(context) { made, arena in
      let list = arena.array(try fields.map { try $0.c(arena) })
      let pointers = arena.array(blocks.map { Optional(UnsafeRawPointer($0.pointer)) })
      return graft_data_from_memory(context.pointer, list, fields.count, pointers, UInt64(samples ?? 0), &made)
    }
  }

  /// Samples that the app makes. `samples`: nil where nobody knows how many.
  public init(_ context: Context, _ fields: [Field], samples: UInt64?, read: @escaping Read) throws {
    self.context = context
    let reader = Reader(fields.map(\.bytes), read)
    keeps = [reader]
    pointer = try DataSet.make(context) { made, arena in
      let list = arena.array(try fields.map { try $0.c(arena) })
      return graft_data_from_callback(
        context.pointer, list, fields.count, samples ?? 0,
        { user, index, out in
          let reader = Unmanaged<Reader>.fromOpaque(user!).takeUnretainedValue()
          let places = reader.sizes.enumerated().map { UnsafeMutableRawBufferPointer(start: out![$0], count: $1) }
          do { return try reader.read(index, places) ? 1 : 0 } catch { return -1 }
        }, Unmanaged.passUnretained(reader).toOpaque(), &made)
    }
  }

  private static func make(
    _ context: Context, _ body: (inout OpaquePointer?, Arena) throws -> graft_status
  ) throws -> OpaquePointer {
    var made: OpaquePointer?
    try context.call { try Arena.use { try body(&made, $0) } }
    return made!
  }

  /// nil where nobody knows.
  public var samples: UInt64? {
    let count = context.whole { graft_data_samples(pointer) }
    return count == 0 ? nil : count
  }

  /// What one sample consists of, in order.
  public var fields: [Field] {
    context.whole {
      (0..<graft_data_field_count(pointer)).compactMap { index in
        var raw = graft_field()
        guard graft_data_field(pointer, index, &raw) == GRAFT_OK else { return nil }
        var field = Field(raw)
        field.classes = texts { graft_data_class(pointer, index, $0) }
        return field
      }
    }
  }

  /// What `model`, without adapters, makes of the texts of preferences becomes part of the samples: DPO, IPO and KTO learn
  /// by the difference to it. Computed once, `batch` samples at a time; before the set has a loader.
  public func addReference(_ model: Model, batch: Int = 8) throws {
    let count: UInt32 = try unsigned(batch, "The batch")
    try context.call { graft_data_add_reference(pointer, model.pointer, count) }
  }

  deinit { context.whole { graft_data_destroy(pointer) } }
}

/// Memory that stays where it is.
private final class Block {
  let pointer: UnsafeMutableRawPointer
  let bytes: Int
  init(_ contents: UnsafeRawBufferPointer) {
    bytes = contents.count
    pointer = .allocate(byteCount: max(bytes, 1), alignment: 16)
    if let from = contents.baseAddress { pointer.copyMemory(from: from, byteCount: bytes) }
  }
  deinit { pointer.deallocate() }
}

/// Batches of a data set, shuffled and read ahead. A set has one loader at a time.
public final class Loader: @unchecked Sendable {
  public struct Options: Sendable {
    public var batch = 32
    /// Of the order.
    public var seed: UInt64 = 0
    public var inOrder = false
    /// The order follows from a hash of each sample: one that is left out does not change the order of the others.
    public var keyed = false
    /// Leave out a last batch that is not full.
    public var dropLast = false
    /// 0: without end.
    public var epochs: UInt64 = 0
    /// Samples, where nobody knows how many there are.
    public var shuffleBuffer: UInt64 = 1024
    /// Bytes for batches and buffers; 0: no limit.
    public var memoryLimit: UInt64 = 0
    /// That read samples where each is a file; 0: as many as cores, 8 at most.
    public var readThreads = 0
    public init() {}
  }

  /// One batch.
  public struct Batch: Sendable {
    public let samples: Int
    /// From 0.
    public let epoch: UInt64
    /// The next batch is of another epoch.
    public let isLastOfEpoch: Bool
    /// Copies of the contents of each field, one sample after another.
    public let fields: [Data]
  }

  private let set: DataSet
  let pointer: OpaquePointer

  public init(_ set: DataSet, _ options: Options = .init()) throws {
    self.set = set
    var made: OpaquePointer?
    try set.context.call {
      var o = graft_loader_options()
      o.struct_size = MemoryLayout<graft_loader_options>.stride
      graft_loader_options_init(&o)
      o.batch = try unsigned(options.batch, "The batch")
      o.seed = options.seed
      o.in_order = options.inOrder ? 1 : 0
      o.keyed = options.keyed ? 1 : 0
      o.drop_last = options.dropLast ? 1 : 0
      o.epochs = options.epochs
      o.shuffle_buffer = options.shuffleBuffer
      o.memory_limit = options.memoryLimit
      o.read_threads = try unsigned(options.readThreads, "The number of threads")
      return graft_loader_create(set.pointer, &o, &made)
    }
    pointer = made!
  }

  /// The next batch, to look at; nil: the epochs are over.
  public func next() throws -> Batch? {
    try set.context.whole {
      var b = graft_batch()
      b.struct_size = MemoryLayout<graft_batch>.stride
      try set.context.call { graft_loader_next(pointer, &b) }
      if b.samples == 0 { return nil }
      let contents = set.fields.enumerated().map { index, field in
        Data(bytes: b.fields[index]!, count: field.bytes * Int(b.samples))
      }
      return Batch(samples: Int(b.samples), epoch: b.epoch, isLastOfEpoch: b.last_of_epoch != 0, fields: contents)
    }
  }

  deinit { set.context.whole { graft_loader_destroy(pointer) } }
}

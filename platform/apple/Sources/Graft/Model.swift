// Loaded models, and what is made from them.
import CGraft
import Foundation

/// A loaded model. Tasks and threads: see `Context`.
public final class Model: @unchecked Sendable {
  public let context: Context
  let pointer: OpaquePointer

  private init(_ context: Context, _ open: (inout OpaquePointer?) -> graft_status) throws {
    self.context = context
    var made: OpaquePointer?
    try context.call { open(&made) }
    pointer = made!
  }

  private static func options(_ check: WeightCheck, _ allowNonFinite: Bool) -> graft_model_options {
    var o = graft_model_options()
    o.struct_size = MemoryLayout<graft_model_options>.stride
    o.check = graft_weight_check(rawValue: .init(check.rawValue))
    o.allow_non_finite = allowNonFinite ? 1 : 0
    return o
  }

  /// Loads a .graft file. Weights are mapped, not copied: do not change the file while the model lives.
  public convenience init(
    _ context: Context, file: URL, check: WeightCheck = .onUse, allowNonFinite: Bool = false
  ) throws {
    try self.init(context) { made in
      var o = Model.options(check, allowNonFinite)
      return Arena.use { graft_model_open(context.pointer, $0.string(file.path), &o, &made) }
    }
  }

  /// A model inside an open file, which may be closed afterwards. Where `offset` is a multiple of 8 the weights are
  /// mapped. `bytes`: 0 for all to the file's end.
  public convenience init(
    _ context: Context, descriptor: Int32, offset: UInt64 = 0, bytes: UInt64 = 0, check: WeightCheck = .onUse
  ) throws {
    try self.init(context) { made in
      var source = graft_source()
      source.struct_size = MemoryLayout<graft_source>.stride
      source.kind = GRAFT_SOURCE_DESCRIPTOR
      source.descriptor = descriptor
      source.offset = offset
      source.bytes = bytes
      var o = Model.options(check, false)
      return graft_model_open_source(context.pointer, &source, &o, &made)
    }
  }

  /// A model in memory, of which it has a copy.
  public convenience init(_ context: Context, data: Data, check: WeightCheck = .onUse) throws {
    try self.init(context) { made in
      data.withUnsafeBytes { bytes in
        var source = graft_source()
        source.struct_size = MemoryLayout<graft_source>.stride
        source.kind = GRAFT_SOURCE_MEMORY
        source.data = bytes.baseAddress
        source.bytes = UInt64(bytes.count)
        source.copy = 1
        var o = Model.options(check, false)
        return graft_model_open_source(context.pointer, &source, &o, &made)
      }
    }
  }

  public var inputs: [TensorInfo] { tensors(GRAFT_INPUTS) }
  public var outputs: [TensorInfo] { tensors(GRAFT_OUTPUTS) }
  public var parameters: [TensorInfo] { tensors(GRAFT_PARAMETERS) }
  /// Running statistics: training moves them.
  public var buffers: [TensorInfo] { tensors(GRAFT_BUFFERS) }

  /// Weights that are not trained.
  public var constants: [TensorInfo] { tensors(GRAFT_CONSTANTS) }

  /// The name of a dimension that is -1 in `inputs` or `outputs`, as in "batch"; "" for one that is a number.
  public func dimension(of tensor: String, axis: Int) throws -> String {
    try context.whole {
      for kind in [GRAFT_INPUTS, GRAFT_OUTPUTS] {
        guard let index = tensors(kind).firstIndex(where: { $0.name == tensor }) else { continue }
        var name: UnsafePointer<CChar>?
        let number: UInt32 = try unsigned(axis, "The axis")
        try context.call { graft_model_dimension(pointer, kind, index, number, &name) }
        return name.map { String(cString: $0) } ?? ""
      }
      throw GraftError(.notFound, "The model has no input or output \"\(tensor)\".")
    }
  }

  /// Entry points beside all inputs and outputs together: what each needs and what it gives.
  public var signatures: [(name: String, inputs: [TensorInfo], outputs: [TensorInfo])] {
    context.whole {
      (0..<graft_model_signature_count(pointer)).compactMap { index in
        var s = graft_signature()
        s.struct_size = MemoryLayout<graft_signature>.stride
        guard graft_model_signature(pointer, index, &s) == GRAFT_OK else { return nil }
        func parts(_ kind: graft_tensor_kind, _ count: Int) -> [TensorInfo] {
          (0..<count).compactMap { tensor in
            var info = graft_tensor_info()
            return graft_model_signature_tensor(pointer, index, kind, tensor, &info) == GRAFT_OK ? TensorInfo(info) : nil
          }
        }
        return (String(cString: s.name), parts(GRAFT_INPUTS, s.input_count), parts(GRAFT_OUTPUTS, s.output_count))
      }
    }
  }

  /// Keeps the names of the set's classes in the model, whose outputs stand for them from now on.
  public func keepClasses(of set: DataSet) throws { try context.call { graft_model_keep_classes(pointer, set.pointer) } }

  /// What the outputs stand for; empty where the model does not say.
  public var classes: [String] { context.whole { texts { graft_model_class(pointer, $0) } } }

  private func tensors(_ kind: graft_tensor_kind) -> [TensorInfo] {
    context.whole {
      (0..<graft_model_count(pointer, kind)).compactMap { index in
        var info = graft_tensor_info()
        return graft_model_tensor(pointer, kind, index, &info) == GRAFT_OK ? TensorInfo(info) : nil
      }
    }
  }

  /// A parameter, a frozen weight or a running statistic, row-major.
  public func read<T: Scalar>(_ name: String, as: T.Type = Float.self) throws -> [T] {
    try readTensor(context, name) { graft_model_read(pointer, $0, $1, $2, $3) }
  }

  /// Puts other numbers in its place. The model must have no sessions, generators or trainers then.
  public func write<T: Scalar>(_ name: String, _ values: [T]) throws {
    try writeTensor(context, name, values) { graft_model_write(pointer, $0, $1, $2) }
  }

  /// Texts by key, in the model's file.
  public var metadata: [String: String] {
    context.whole {
      var all: [String: String] = [:]
      for index in 0..<graft_model_metadata_count(pointer) {
        var key: UnsafePointer<CChar>?
        var value: UnsafePointer<CChar>?
        guard graft_model_metadata_at(pointer, index, &key, &value) == GRAFT_OK, let key, let value else { break }
        all[String(cString: key)] = String(cString: value)
      }
      return all
    }
  }

  /// nil takes the key away.
  public func setMetadata(_ key: String, _ value: String?) throws {
    try context.call { Arena.use { graft_model_set_metadata(pointer, $0.string(key), $0.string(value)) } }
  }

  /// Writes the model atomically: on failure the file is as it was.
  public func save(_ file: URL) throws {
    try context.call { Arena.use { graft_model_save(pointer, $0.string(file.path)) } }
  }

  /// Plans and records the model once.
  public func session(_ options: Session.Options = .init()) throws -> Session { try Session(self, options) }

  public func trainer(_ options: Trainer.Options = .init()) throws -> Trainer { try Trainer(self, options) }

  /// Throws `.unsupported` where the model is no language model that can go on token by token.
  public func generator(_ options: Generator.Options = .init()) throws -> Generator { try Generator(self, options) }

  /// For language models and encoders of texts.
  public func embedder(_ options: Embedder.Options = .init()) throws -> Embedder { try Embedder(self, options) }

  /// For causal language models: plans one chunk of texts.
  public func importance(_ options: Importance.Options = .init()) throws -> Importance { try Importance(self, options) }

  /// How the model's text becomes tokens; `.notFound` where it carries no tokenizer.
  public func tokenizer() throws -> Tokenizer { try Tokenizer(self) }

  /// What `trainer(options)` would take: in milliseconds, also without a device.
  public func forecast(_ options: Trainer.Options = .init()) throws -> Forecast {
    try context.whole {
      var f = graft_forecast()
      f.struct_size = MemoryLayout<graft_forecast>.stride
      try context.call {
        try options.use { graft_forecast_training(pointer, &$0, &f) }
      }
      return Forecast(f)
    }
  }

  // Low-rank adapters. They change while the model has no sessions, generators or trainers.

  /// Fresh adapters, which replace those that the model has: "r=8,alpha=16,dropout=0,targets=q_proj|v_proj", any part
  /// may be left out. Tokens of `addTokens` keep their rows. All else is frozen then.
  public func addAdapters(_ options: String? = nil, seed: UInt32 = 0) throws {
    try context.call { Arena.use { graft_model_add_adapters(pointer, $0.string(options), seed) } }
  }

  /// Adds tokens to the vocabulary: a JSON array of texts, or of {"content": text, "special": true}. Their rows are
  /// trained, and adapters with them. Adapters and tokens of earlier calls, and all other rows, keep their bits.
  public func addTokens(_ tokens: String) throws {
    try context.call { Arena.use { graft_model_add_tokens(pointer, $0.string(tokens)) } }
  }

  /// Another number of classes for the last layer, of `output` (nil: the only one). Old rows keep their bits, and new
  /// ones begin as in PyTorch; with `replace` all rows begin anew, and there may be fewer. `classNames`: of the new
  /// classes (replace: of all), for a model that knows its classes by names. A run of the model before can be continued
  /// by its checkpoint. The model has no sessions, generators or trainers then.
  public func resizeHead(
    classes: Int, output: String? = nil, replace: Bool = false, seed: UInt32 = 0, classNames: [String] = []
  ) throws {
    try context.call {
      Arena.use { arena in
        var o = graft_head_options()
        o.struct_size = MemoryLayout<graft_head_options>.stride
        o.output = arena.string(output)
        o.classes = Int64(classes)
        o.replace = replace ? 1 : 0
        o.seed = seed
        o.class_names = arena.strings(classNames)
        o.class_name_count = classNames.count
        return graft_model_resize_head(pointer, &o)
      }
    }
  }

  /// The adapters of a file in place of any; nil: none.
  public func loadAdapters(_ file: URL?) throws {
    try context.call { Arena.use { graft_model_load_adapters(pointer, $0.string(file?.path)) } }
  }

  /// The same from memory.
  public func loadAdapters(_ file: Data) throws {
    try context.call { withMemory(file) { graft_model_load_adapters_source(pointer, $0) } }
  }

  /// Several files' adapters at once, each with the weight that its product is multiplied by.
  public func loadAdapters(_ files: [(file: URL, weight: Double)]) throws {
    try context.call {
      Arena.use { arena in
        graft_model_load_adapters_together(
          pointer, arena.strings(files.map(\.file.path)), arena.array(files.map(\.weight)), files.count)
      }
    }
  }

  /// Writes the adapters alone, atomically.
  public func saveAdapters(_ file: URL) throws {
    try context.call { Arena.use { graft_model_save_adapters(pointer, $0.string(file.path)) } }
  }

  /// Adds the adapters' product to the weights: from then on there are none. Merged matrices become blocks of the
  /// format `quantize` ("q8_0", ...), frozen; nil: f32.
  public func mergeAdapters(quantize: String? = nil) throws {
    try context.call { Arena.use { graft_model_merge_adapters(pointer, $0.string(quantize)) } }
  }

  deinit { context.whole { graft_model_destroy(pointer) } }
}

/// A tensor by name, of a model or a trainer.
func readTensor<T: Scalar>(
  _ context: Context, _ name: String,
  _ read: (UnsafePointer<CChar>?, UnsafeMutableRawPointer?, Int, UnsafeMutablePointer<graft_tensor_info>?) -> graft_status
) throws -> [T] {
  try context.whole {
    var info = graft_tensor_info()
    try context.call { Arena.use { read($0.string(name), nil, 0, &info) } }
    try check(T.self, info)
    let count = TensorInfo(info).bytes / 4
    return try [T](unsafeUninitializedCapacity: count) { buffer, initialized in
      try context.call { Arena.use { read($0.string(name), buffer.baseAddress, count * 4, nil) } }
      initialized = count
    }
  }
}

func writeTensor<T: Scalar>(
  _ context: Context, _ name: String, _ values: [T],
  _ write: (UnsafePointer<CChar>?, UnsafeRawPointer?, Int) -> graft_status
) throws {
  try context.call {
    Arena.use { arena in values.withUnsafeBytes { write(arena.string(name), $0.baseAddress, $0.count) } }
  }
}

/// A file's bytes as C takes them, which are copied.
func withMemory<R>(_ file: Data, _ body: (UnsafePointer<graft_source>) -> R) -> R {
  file.withUnsafeBytes { bytes in
    var source = graft_source()
    source.struct_size = MemoryLayout<graft_source>.stride
    source.kind = GRAFT_SOURCE_MEMORY
    source.data = bytes.baseAddress
    source.bytes = UInt64(bytes.count)
    source.copy = 1
    return body(&source)
  }
}

/// The texts that `ask` gives for 0, 1, ... until it gives none.
func texts(_ ask: (Int) -> UnsafePointer<CChar>?) -> [String] {
  var all: [String] = []
  while let text = ask(all.count) { all.append(String(cString: text)) }
  return all
}

/// The same as C takes it.
func bindings(_ sizes: [String: Int], _ arena: Arena) -> (UnsafePointer<graft_binding>?, Int) {
  let all = sizes.sorted { $0.key < $1.key }.map { graft_binding(name: arena.string($0.key), size: Int64($0.value)) }
  return (arena.array(all), all.count)
}

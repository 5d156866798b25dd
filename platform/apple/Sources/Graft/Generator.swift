// Text from language models.
import CGraft
import Foundation

/// Writes text with a language model. Tasks and threads: see `Context`.
public final class Generator: @unchecked Sendable {
  public struct Options: Sendable {
    /// Tokens of prompt and answer together; 0: the model's own, at most 2048.
    public var context = 0
    /// Tokens of a prompt taken at a time.
    public var prefill = 64
    /// Bytes of device memory; 0: no limit.
    public var budget: UInt64 = 0
    public var precision = Precision.float32
    /// Where the device is lost it is opened anew, and a text goes on to the same bits.
    public var recoverDevice = false
    /// Tokens that are guessed from what the text says before, and verified in one run: the same text; 0: none.
    public var promptLookup = 0
    /// How keys and values of earlier tokens are kept.
    public var cache = CacheFormat.float32
    /// Texts that are written at once, as `submit` takes them; 0: one after the other.
    public var sequences = 0
    public init() {}
  }

  /// Halves take half of the memory, blocks about a quarter.
  public enum CacheFormat: UInt32, Sendable { case float32, float16, bfloat16, q8_0 }

  /// How one text is drawn.
  public struct Sampling: Sendable {
    public var maxTokens = 256
    /// 0: always the most probable token.
    public var temperature = 0.0
    /// Draw from so many of the most probable tokens; 0: all.
    public var topK = 0
    /// Draw from the most probable tokens that together reach this.
    public var topP = 1.0
    /// Draw from tokens at least this many times as probable as the first.
    public var minP = 0.0
    public var repetitionPenalty = 1.0
    public var seed: UInt64 = 0
    /// The text ends before any of these.
    public var stop: [String] = []
    /// What is added to tokens' scores before one is chosen; -infinity: never this token.
    public var logitBias: [Int32: Float] = [:]
    /// `Generated.logProbabilities` are told, and with `mostProbable` those of so many tokens beside each.
    public var logProbabilities = false
    public var mostProbable = 0
    /// What the text has to follow, one of the two at most: rules as llama.cpp has them (GBNF), or a JSON schema.
    public var grammar: String?
    public var jsonSchema: String?
    public init() {}

    func fill(_ arena: Arena) throws -> graft_generate_options {
      var o = graft_generate_options()
      o.struct_size = MemoryLayout<graft_generate_options>.stride
      graft_generate_options_init(&o)
      o.max_tokens = try unsigned(maxTokens, "maxTokens")
      o.top_k = try unsigned(topK, "topK")
      o.temperature = temperature
      o.top_p = topP
      o.min_p = minP
      o.repetition_penalty = repetitionPenalty
      o.seed = seed
      o.stop = arena.strings(stop)
      o.stop_count = stop.count
      let bias = logitBias.sorted { $0.key < $1.key }.map { graft_logit_bias(token: $0.key, bias: $0.value) }
      o.bias = arena.array(bias)
      o.bias_count = bias.count
      o.log_probabilities = logProbabilities ? 1 : 0
      o.most_probable = try unsigned(mostProbable, "mostProbable")
      o.grammar = arena.string(grammar)
      o.json_schema = arena.string(jsonSchema)
      return o
    }
  }

  /// How probable a model finds a token: the natural logarithm, before any bias, penalty and temperature.
  public struct TokenProbability: Sendable, Equatable {
    public let token: Int32
    public let logProbability: Float
  }

  public enum StopReason: UInt32, Sendable { case endOfText, maxTokens, stopString, contextFull, callback }

  /// What a call generated.
  public struct Generated: Sendable {
    /// "" where the model has no tokenizer.
    public let text: String
    /// Without the one that ended the text.
    public let tokens: [Int32]
    public let reason: StopReason
    public let promptTokens: Int
    /// Of the prompt, that the call before had computed.
    public let cachedTokens: Int
    /// For the other tokens of the prompt, and for what was generated.
    public let promptMilliseconds, generatedMilliseconds: Double
    /// From the call to its first token.
    public let firstTokenMilliseconds: Double
    /// Guessed by prompt lookup, and of these what the model said as well.
    public let draftedTokens, rightDrafts: Int
    /// One for each token; empty unless asked for.
    public let logProbabilities: [Float]
    /// For each token the most probable ones in its place, the most probable first; as many as were asked for.
    public let mostProbable: [[TokenProbability]]

    init(_ g: graft_generated) {
      text = utf8(g.text, g.bytes)
      tokens = Array(UnsafeBufferPointer(start: g.tokens, count: g.token_count))
      reason = StopReason(rawValue: UInt32(g.reason.rawValue)) ?? .callback
      promptTokens = Int(g.prompt_tokens)
      cachedTokens = Int(g.cached_tokens)
      promptMilliseconds = g.prompt_ms
      generatedMilliseconds = g.generated_ms
      firstTokenMilliseconds = g.first_token_ms
      draftedTokens = Int(g.drafted_tokens)
      rightDrafts = Int(g.right_drafts)
      logProbabilities =
        g.log_probabilities == nil ? [] : Array(UnsafeBufferPointer(start: g.log_probabilities, count: g.token_count))
      let beside = Int(g.most_probable_count)
      let all = UnsafeBufferPointer(start: g.most_probable, count: g.most_probable == nil ? 0 : beside * g.token_count)
      mostProbable = stride(from: 0, to: all.count, by: max(beside, 1)).map { first in
        all[first..<first + beside].map { (p: graft_token_probability) in
          TokenProbability(token: p.token, logProbability: p.log_probability)
        }
      }
    }
  }

  /// One of several texts that is done: what it was, or the error of its own (of its grammar, or of its scores).
  public struct Finished: Sendable {
    public let id: UInt64
    public let result: Result<Generated, GraftError>
  }

  /// Gets a token as it is chosen, with the scores that the model gave, before temperature and penalties; false makes
  /// it the last. It must not call graft with this context.
  public typealias OnToken = (Int32, UnsafeBufferPointer<Float>) -> Bool
  /// Gets each piece of text once it is certain; false ends the text. It must not call graft with this context.
  public typealias OnText = (String) -> Bool

  private final class Listener {
    let onText: OnText?
    let onToken: OnToken?
    init(_ onText: OnText?, _ onToken: OnToken?) {
      self.onText = onText
      self.onToken = onToken
    }

    /// For as long as this object is there.
    func listen(_ o: inout graft_generate_options) {
      o.user = Unmanaged.passUnretained(self).toOpaque()
      if onText != nil {
        o.on_text = { user, text, bytes in
          Unmanaged<Listener>.fromOpaque(user!).takeUnretainedValue().onText!(utf8(text, bytes)) ? 1 : 0
        }
      }
      if onToken != nil {
        o.on_token = { user, token, logits, count in
          let listener = Unmanaged<Listener>.fromOpaque(user!).takeUnretainedValue()
          return listener.onToken!(token, UnsafeBufferPointer(start: logits, count: count)) ? 1 : 0
        }
      }
    }
  }

  public let model: Model
  private let pointer: OpaquePointer
  private var listeners: [UInt64: Listener] = [:]  // of texts that are queued or under way
  private var context: Context { model.context }

  init(_ model: Model, _ options: Options) throws {
    self.model = model
    var made: OpaquePointer?
    try model.context.call {
      var o = graft_generator_options()
      o.struct_size = MemoryLayout<graft_generator_options>.stride
      graft_generator_options_init(&o)
      o.context = try unsigned(options.context, "The context")
      o.prefill = try unsigned(options.prefill, "prefill")
      o.budget = options.budget
      o.precision = graft_precision(rawValue: .init(options.precision.rawValue))
      o.recover_device = options.recoverDevice ? 1 : 0
      o.prompt_lookup = try unsigned(options.promptLookup, "promptLookup")
      o.cache = graft_cache_format(rawValue: .init(options.cache.rawValue))
      o.sequences = try unsigned(options.sequences, "sequences")
      return graft_generator_create(model.pointer, &o, &made)
    }
    pointer = made!
  }

  /// What the model says after the prompt. A prompt that begins as the one before costs its new part only.
  @discardableResult
  public func generate(
    _ prompt: String, _ sampling: Sampling = .init(), onText: OnText? = nil, onToken: OnToken? = nil
  ) throws -> Generated {
    try generate(sampling, onText, onToken) { arena, o in
      graft_generate(pointer, arena.string(prompt), &o, nil, nil)
    }
  }

  /// The same after a prompt of tokens, as `Tokenizer.encode` and `Tokenizer.chat` give them.
  @discardableResult
  public func generate(
    _ prompt: [Int32], _ sampling: Sampling = .init(), onText: OnText? = nil, onToken: OnToken? = nil
  ) throws -> Generated {
    try generate(sampling, onText, onToken) { _, o in
      graft_generate_tokens(pointer, prompt, prompt.count, &o, nil)
    }
  }

  private func generate(
    _ sampling: Sampling, _ onText: OnText?, _ onToken: OnToken?,
    _ body: (Arena, inout graft_generate_options) -> graft_status
  ) throws -> Generated {
    try context.whole {
      let listener = Listener(onText, onToken)
      try context.call {
        try Arena.use { arena in
          var o = try sampling.fill(arena)
          listener.listen(&o)
          return withExtendedLifetime(listener) { body(arena, &o) }
        }
      }
      return try last()
    }
  }

  /// Pieces of the text as they become certain, beside the app's own work: `for try await piece in ...`. Whoever leaves
  /// the loop ends the text.
  public func pieces(_ prompt: String, _ sampling: Sampling = .init()) -> AsyncThrowingStream<String, any Error> {
    stream { try self.generate(prompt, sampling, onText: $0) }
  }

  public func pieces(_ prompt: [Int32], _ sampling: Sampling = .init()) -> AsyncThrowingStream<String, any Error> {
    stream { try self.generate(prompt, sampling, onText: $0) }
  }

  private func stream(
    _ generate: @escaping @Sendable (@escaping OnText) throws -> Generated
  ) -> AsyncThrowingStream<String, any Error> {
    AsyncThrowingStream { continuation in
      let task = Task {
        do {
          _ = try await context.perform {
            try generate { piece in
              if case .terminated = continuation.yield(piece) { return false }
              return true
            }
          }
          continuation.finish()
        } catch {
          continuation.finish(throwing: error)
        }
      }
      continuation.onTermination = { termination in
        if case .cancelled = termination { task.cancel() }
      }
    }
  }

  /// What the last call gave: its text and tokens, why it ended, what it cost.
  public func last() throws -> Generated {
    try context.whole {
      var g = graft_generated()
      g.struct_size = MemoryLayout<graft_generated>.stride
      try context.call { graft_generator_last(pointer, &g) }
      return Generated(g)
    }
  }

  /// Queues what follows the prompt, with a generator that was made for several `sequences`, and gives the text's name.
  /// Callbacks are called by `step` until it is finished. A text waits until a place is free; what prompts begin with in
  /// common is computed once, and each text is what it would be alone.
  public func submit(
    _ prompt: String, _ sampling: Sampling = .init(), onText: OnText? = nil, onToken: OnToken? = nil
  ) throws -> UInt64 {
    try submit(sampling, Listener(onText, onToken)) { arena, o, id in
      graft_generator_submit(pointer, arena.string(prompt), &o, &id)
    }
  }

  /// The same after a prompt of tokens.
  public func submit(
    _ prompt: [Int32], _ sampling: Sampling = .init(), onText: OnText? = nil, onToken: OnToken? = nil
  ) throws -> UInt64 {
    try submit(sampling, Listener(onText, onToken)) { _, o, id in
      graft_generator_submit_tokens(pointer, prompt, prompt.count, &o, &id)
    }
  }

  private func submit(
    _ sampling: Sampling, _ listener: Listener,
    _ body: (Arena, inout graft_generate_options, inout UInt64) -> graft_status
  ) throws -> UInt64 {
    try context.whole {
      var id: UInt64 = 0
      try context.call {
        try Arena.use { arena in
          var o = try sampling.fill(arena)
          listener.listen(&o)
          return body(arena, &o, &id)
        }
      }
      listeners[id] = listener
      return id
    }
  }

  /// One run on the device: some of a prompt, or a token of every text. How many are queued or under way then.
  public func step() throws -> Int {
    var unfinished = 0
    try context.call { graft_generator_step(pointer, &unfinished) }
    return unfinished
  }

  /// The next text that is done, each once; nil where there is none.
  public func finished() throws -> Finished? {
    try context.whole {
      var g = graft_generated()
      g.struct_size = MemoryLayout<graft_generated>.stride
      var id: UInt64 = 0
      do {
        try context.call { graft_generator_finished(pointer, &id, &g) }
      } catch let error as GraftError where id != 0 {
        listeners[id] = nil
        return Finished(id: id, result: .failure(error))
      }
      if id == 0 { return nil }
      listeners[id] = nil
      return Finished(id: id, result: .success(Generated(g)))
    }
  }

  /// Ends a text that is queued or under way; nothing more is heard of it.
  public func drop(_ id: UInt64) throws {
    try context.whole {
      try context.call { graft_generator_drop(pointer, id) }
      listeners[id] = nil
    }
  }

  public func memory() throws -> Memory { try Memory.of(context) { graft_generator_memory(pointer, &$0) } }

  /// Gives all device memory back; what a conversation has computed waits in host memory.
  public func pause() throws { try context.call { graft_generator_pause(pointer) } }
  public func resume() throws { try context.call { graft_generator_resume(pointer) } }

  /// Swaps the adapters for those of a file; nil: writes as without any.
  public func swapAdapters(_ file: URL?) throws {
    try context.call { Arena.use { graft_generator_swap_adapters(pointer, $0.string(file?.path)) } }
  }

  /// The same from memory.
  public func swapAdapters(_ file: Data) throws {
    try context.call { withMemory(file) { graft_generator_swap_adapters_source(pointer, $0) } }
  }

  deinit { context.whole { graft_generator_destroy(pointer) } }
}

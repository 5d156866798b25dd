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
    public init() {}
  }

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
    public init() {}
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
  }

  public let model: Model
  private let pointer: OpaquePointer
  private var context: Context { model.context }

  init(_ model: Model, _ options: Options) throws {
    self.model = model
    var made: OpaquePointer?
    try model.context.call {
      var o = graft_generator_options()
      o.struct_size = MemoryLayout<graft_generator_options>.stride
      o.context = try unsigned(options.context, "The context")
      o.prefill = try unsigned(options.prefill, "prefill")
      o.budget = options.budget
      o.precision = graft_precision(rawValue: .init(options.precision.rawValue))
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
          var o = graft_generate_options()
          o.struct_size = MemoryLayout<graft_generate_options>.stride
          o.max_tokens = try unsigned(sampling.maxTokens, "maxTokens")
          o.top_k = try unsigned(sampling.topK, "topK")
          o.temperature = sampling.temperature
          o.top_p = sampling.topP
          o.min_p = sampling.minP
          o.repetition_penalty = sampling.repetitionPenalty
          o.seed = sampling.seed
          o.stop = arena.strings(sampling.stop)
          o.stop_count = sampling.stop.count
          o.user = Unmanaged.passUnretained(listener).toOpaque()
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
      return Generated(
        text: utf8(g.text, g.bytes), tokens: Array(UnsafeBufferPointer(start: g.tokens, count: g.token_count)),
        reason: StopReason(rawValue: UInt32(g.reason.rawValue)) ?? .callback, promptTokens: Int(g.prompt_tokens),
        cachedTokens: Int(g.cached_tokens), promptMilliseconds: g.prompt_ms, generatedMilliseconds: g.generated_ms)
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

  deinit { context.whole { graft_generator_destroy(pointer) } }
}

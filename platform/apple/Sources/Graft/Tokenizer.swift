// Text as tokens, and conversations as prompts.
import CGraft
import Foundation

/// One turn of a conversation.
public struct ChatMessage: Sendable {
  /// "system", "user" or "assistant".
  public var role: String
  /// It forges no special token.
  public var text: String

  public init(_ role: String, _ text: String) {
    self.role = role
    self.text = text
  }
}

/// How a conversation becomes a prompt.
public struct ChatOptions: Sendable {
  /// "alpaca", "chatml", "gemma", "llama2" or "llama3"; nil: the model's own.
  public var format: String?
  /// The conversation as it is, without what makes the assistant speak next.
  public var complete = false
  /// For the model's own template, as JSON: in place of the list, [{"role": ..., "content": ..., "tool_calls": ...}, ...].
  public var messages: String?
  /// Functions that the model may call, a list; what it may refer to, a list; an object of whatever else it reads.
  public var tools, documents, variables: String?
  public init() {}

  init(_ format: String?, _ complete: Bool) {
    self.format = format
    self.complete = complete
  }
}

/// How a model's text becomes tokens. It outlives the model.
public final class Tokenizer: @unchecked Sendable {
  private let context: Context
  private let pointer: OpaquePointer

  init(_ model: Model) throws {
    context = model.context
    var made: OpaquePointer?
    try model.context.call { graft_tokenizer_create(model.pointer, &made) }
    pointer = made!
  }

  /// How many tokens there are: ids are 0 to one less.
  public var count: Int { context.whole { graft_tokenizer_size(pointer) } }

  /// The id of the token that is spelled so in the vocabulary.
  public func find(_ token: String) -> Int32? {
    let id = context.whole { Arena.use { graft_tokenizer_find(pointer, $0.string(token)) } }
    return id < 0 ? nil : id
  }

  /// `bare`: without the tokens that the model puts before and after a text. `parseSpecial`: special tokens that are
  /// spelled out become these; otherwise they stay text, so that text from outside cannot forge them.
  public func encode(_ text: String, bare: Bool = false, parseSpecial: Bool = false) throws -> [Int32] {
    var text = text
    return try ids { ids, count in
      var o = graft_encode_options()
      o.struct_size = MemoryLayout<graft_encode_options>.stride
      o.bare = bare ? 1 : 0
      o.parse_special = parseSpecial ? 1 : 0
      return text.withUTF8 { utf8 in
        utf8.withMemoryRebound(to: CChar.self) {
          graft_tokenizer_encode(pointer, $0.baseAddress, $0.count, &o, &ids, &count)
        }
      }
    }
  }

  /// The text of tokens. `spellSpecial`: special tokens are spelled out. `continued`: they go on with a text.
  public func decode(_ tokens: [Int32], spellSpecial: Bool = false, continued: Bool = false) throws -> String {
    try text { text, bytes in
      var o = graft_decode_options()
      o.struct_size = MemoryLayout<graft_decode_options>.stride
      o.spell_special = spellSpecial ? 1 : 0
      o.continued = continued ? 1 : 0
      return graft_tokenizer_decode(pointer, tokens, tokens.count, &o, &text, &bytes)
    }
  }

  /// A conversation as the prompt that the model was tuned on, for `Generator.generate(_: [Int32])`. `format`: nil for
  /// the model's own. `complete`: as it is, without what makes the assistant speak next.
  public func chat(_ messages: [ChatMessage], format: String? = nil, complete: Bool = false) throws -> [Int32] {
    try chat(messages, ChatOptions(format, complete))
  }

  public func chat(_ messages: [ChatMessage], _ options: ChatOptions) throws -> [Int32] {
    try ids { ids, count in
      Tokenizer.withChat(messages, options) {
        graft_chat_encode(pointer, $0, messages.count, &$1, &ids, &count)
      }
    }
  }

  /// The same as text, to look at.
  public func render(_ messages: [ChatMessage], format: String? = nil, complete: Bool = false) throws -> String {
    try render(messages, ChatOptions(format, complete))
  }

  public func render(_ messages: [ChatMessage], _ options: ChatOptions) throws -> String {
    try text { text, bytes in
      Tokenizer.withChat(messages, options) {
        graft_chat_render(pointer, $0, messages.count, &$1, &text, &bytes)
      }
    }
  }

  private static func withChat(
    _ messages: [ChatMessage], _ options: ChatOptions,
    _ body: (UnsafePointer<graft_chat_message>?, inout graft_chat_options) -> graft_status
  ) -> graft_status {
    Arena.use { arena in
      let list = messages.map { graft_chat_message(role: arena.string($0.role), text: arena.string($0.text)) }
      var o = graft_chat_options()
      o.struct_size = MemoryLayout<graft_chat_options>.stride
      o.format = arena.string(options.format)
      o.complete = options.complete ? 1 : 0
      o.messages = arena.string(options.messages)
      o.tools = arena.string(options.tools)
      o.documents = arena.string(options.documents)
      o.variables = arena.string(options.variables)
      return body(arena.array(list), &o)
    }
  }

  private func ids(_ body: (inout UnsafePointer<Int32>?, inout Int) -> graft_status) throws -> [Int32] {
    try context.whole {
      var ids: UnsafePointer<Int32>?
      var count = 0
      try context.call { body(&ids, &count) }
      return Array(UnsafeBufferPointer(start: ids, count: count))
    }
  }

  private func text(_ body: (inout UnsafePointer<CChar>?, inout Int) -> graft_status) throws -> String {
    try context.whole {
      var text: UnsafePointer<CChar>?
      var bytes = 0
      try context.call { body(&text, &bytes) }
      return utf8(text, bytes)
    }
  }

  deinit { context.whole { graft_tokenizer_destroy(pointer) } }
}

func utf8(_ text: UnsafePointer<CChar>?, _ bytes: Int) -> String {
  String(decoding: UnsafeRawBufferPointer(start: text, count: bytes), as: UTF8.self)
}

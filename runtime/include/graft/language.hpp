// What graft.hpp says of language models: tokenizers, conversations, embedders; generators: generate.hpp. Included by
// graft.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/generate.hpp"

namespace graft {
inline namespace v0 {

/// One turn of a conversation.
struct ChatMessage {
  std::string role;  ///< "system", "user" or "assistant"
  std::string text;
};

/// How a model's text becomes tokens, and conversations prompts; see graft/language.h.
class Tokenizer {
 public:
  /// The one that a generator has, without making another; it keeps the generator.
  static Result<Tokenizer> of(Generator& generator) {
    graft_tokenizer* handle = nullptr;
    const graft_status code = graft_generator_tokenizer(generator.get(), &handle);
    return detail::made(code, generator.context(), Tokenizer(handle, generator.context()));
  }
  /// Of bytes that tokenizer_bytes() of graft/convert.hpp gave; `context`: Context::get().
  static Result<Tokenizer> of(std::span<const std::byte> bytes, graft_context* context) {
    graft_tokenizer* handle = nullptr;
    const graft_status code = graft_tokenizer_open(context, bytes.data(), bytes.size(), &handle);
    return detail::made(code, context, Tokenizer(handle, context));
  }
  graft_tokenizer* get() const { return handle_.get(); }  ///< for what only the C ABI has
  /// How many tokens there are.
  std::size_t size() const { return graft_tokenizer_size(handle_.get()); }
  /// "bpe", "scored_bpe", ...
  std::string algorithm() const { return graft_tokenizer_algorithm(handle_.get()); }
  /// -1 where no token is spelled so.
  std::int32_t find(const std::string& token) const { return graft_tokenizer_find(handle_.get(), token.c_str()); }

  /// As graft_encode_options.
  struct EncodeOptions {
    bool bare = false;           ///< without what the model puts before and after a text
    bool parse_special = false;  ///< special tokens that are spelled out become these
  };
  /// UTF-8 text as tokens.
  Result<std::vector<std::int32_t>> encode(std::string_view text) { return encode(text, EncodeOptions()); }
  /// The same, by options.
  Result<std::vector<std::int32_t>> encode(std::string_view text, const EncodeOptions& options) {
    auto raw = detail::sized<graft_encode_options>();
    raw.bare = options.bare ? 1 : 0;
    raw.parse_special = options.parse_special ? 1 : 0;
    return ids([&](const std::int32_t** ids, std::size_t* count) {
      return graft_tokenizer_encode(handle_.get(), text.data(), text.size(), &raw, ids, count);
    });
  }

  /// As graft_decode_options.
  struct DecodeOptions {
    bool spell_special = false;  ///< special tokens are spelled out
    bool continued = false;      ///< the tokens go on with a text
  };
  /// Tokens as text; an error for a number that is no token.
  Result<std::string> decode(std::span<const std::int32_t> ids) { return decode(ids, DecodeOptions()); }
  /// The same, by options.
  Result<std::string> decode(std::span<const std::int32_t> ids, const DecodeOptions& options) {
    auto raw = detail::sized<graft_decode_options>();
    raw.spell_special = options.spell_special ? 1 : 0;
    raw.continued = options.continued ? 1 : 0;
    return text([&](const char** text, std::size_t* bytes) {
      return graft_tokenizer_decode(handle_.get(), ids.data(), ids.size(), &raw, text, bytes);
    });
  }

  /// As graft_chat_options.
  struct ChatOptions {
    std::string format = {};     ///< empty: the model's own
    bool complete = false;       ///< the conversation as it is, without what makes the assistant speak next
    std::string messages = {};   ///< JSON in place of the list of messages
    std::string tools = {};      ///< JSON: functions that the model may call
    std::string documents = {};  ///< JSON: what it may refer to
    std::string variables = {};  ///< JSON: an object of whatever else the model's template reads
    std::string said = {};       ///< chat_text() of the turn before with the answer behind it, and
    std::vector<std::int32_t> said_tokens = {};  ///< the tokens of both, which stay these: see graft_chat_options
  };
  /// A conversation as a prompt for Generator::generate(tokens).
  Result<std::vector<std::int32_t>> chat(std::span<const ChatMessage> messages) {
    return chat(messages, ChatOptions());
  }
  /// The same, by options.
  Result<std::vector<std::int32_t>> chat(std::span<const ChatMessage> messages, const ChatOptions& options) {
    const auto said = raw_messages(messages);
    const auto raw = raw_options(options);
    return ids([&](const std::int32_t** ids, std::size_t* count) {
      return graft_chat_encode(handle_.get(), said.data(), said.size(), &raw, ids, count);
    });
  }
  /// The same as text, to look at.
  Result<std::string> chat_text(std::span<const ChatMessage> messages) { return chat_text(messages, ChatOptions()); }
  /// The same, by options.
  Result<std::string> chat_text(std::span<const ChatMessage> messages, const ChatOptions& options) {
    const auto said = raw_messages(messages);
    const auto raw = raw_options(options);
    return text([&](const char** text, std::size_t* bytes) {
      return graft_chat_render(handle_.get(), said.data(), said.size(), &raw, text, bytes);
    });
  }

 private:
  friend class Model;
  Tokenizer(graft_tokenizer* handle, graft_context* context) : handle_(handle), context_(context) {}
  template <typename Call>
  Result<std::vector<std::int32_t>> ids(Call call) {
    const std::int32_t* ids = nullptr;
    std::size_t count = 0;
    Status done = detail::to_status(call(&ids, &count), context_);
    if (!done.ok()) return done;
    return std::vector<std::int32_t>(ids, ids + count);
  }
  template <typename Call>
  Result<std::string> text(Call call) {
    const char* text = nullptr;
    std::size_t bytes = 0;
    Status done = detail::to_status(call(&text, &bytes), context_);
    if (!done.ok()) return done;
    return std::string(text, bytes);
  }
  static std::vector<graft_chat_message> raw_messages(std::span<const ChatMessage> messages) {
    std::vector<graft_chat_message> raw;
    for (const ChatMessage& message : messages) raw.push_back({message.role.c_str(), message.text.c_str()});
    return raw;
  }
  static graft_chat_options raw_options(const ChatOptions& options) {
    auto raw = detail::sized<graft_chat_options>();
    raw.format = detail::or_null(options.format);
    raw.complete = options.complete ? 1 : 0;
    raw.messages = detail::or_null(options.messages);
    raw.tools = detail::or_null(options.tools);
    raw.documents = detail::or_null(options.documents);
    raw.variables = detail::or_null(options.variables);
    raw.said = options.said.data();
    raw.said_bytes = options.said.size();
    raw.said_tokens = options.said_tokens.data();
    raw.said_count = options.said_tokens.size();
    return raw;
  }
  detail::Handle<graft_tokenizer, graft_tokenizer_destroy> handle_;
  graft_context* context_;
};

/// As graft_embedder_options.
struct EmbedderOptions {
  graft_pooling pooling = GRAFT_POOLING_DEFAULT;
  bool normalize = false;    ///< vectors of length 1
  bool cut = false;          ///< longer texts at their end; without, they are refused
  std::uint32_t length = 0;  ///< most tokens of a text; 0: the model's own context, at most 512
  std::uint32_t batch = 8;   ///< texts on the device at once
  std::string of = {};       ///< the value that is pooled; empty: the last hidden state
  graft_precision precision = GRAFT_PRECISION_F32;
  std::uint64_t budget = 0;     ///< bytes of device memory; 0: no limit
  bool recover_device = false;  ///< goes on where the device was lost
};

/// Vectors of texts, one after the other.
struct Embeddings {
  std::size_t width = 0;
  std::vector<float> numbers;
  std::vector<std::uint32_t> token_counts;  ///< of each text before it was cut; empty where tokens were given
  /// The vector of one of them.
  std::span<const float> operator[](std::size_t text) const { return std::span(numbers).subspan(text * width, width); }
};

/// Turns texts into vectors; see graft/embed.h.
class Embedder {
 public:
  std::size_t width() const { return graft_embedder_width(handle_.get()); }    ///< numbers of a vector
  std::size_t length() const { return graft_embedder_length(handle_.get()); }  ///< most tokens of a text
  /// A vector for each text.
  Result<Embeddings> embed(std::span<const std::string> texts) {
    std::vector<const char*> raw;
    for (const std::string& text : texts) raw.push_back(text.c_str());
    const std::uint32_t* counts = nullptr;
    auto made = vectors(texts.size(), [&](const float** out) {
      return graft_embed(handle_.get(), raw.data(), raw.size(), out, &counts);
    });
    if (made.ok()) made->token_counts.assign(counts, counts + texts.size());
    return made;
  }
  /// The same of tokens, as Tokenizer gives them.
  Result<Embeddings> embed(std::span<const std::vector<std::int32_t>> texts) {
    std::vector<const std::int32_t*> ids;
    std::vector<std::size_t> counts;
    for (const auto& text : texts) {
      ids.push_back(text.data());
      counts.push_back(text.size());
    }
    return vectors(texts.size(), [&](const float** out) {
      return graft_embed_tokens(handle_.get(), ids.data(), counts.data(), texts.size(), out);
    });
  }
  /// Bytes that it holds on device and host, by class.
  Result<Memory> memory() const {
    auto memory = detail::sized<Memory>();
    Status got = detail::to_status(graft_embedder_memory(handle_.get(), &memory), context_);
    if (!got.ok()) return got;
    return memory;
  }
  graft_embedder* get() const { return handle_.get(); }  ///< for what only the C ABI has

 private:
  friend class Model;
  Embedder(graft_embedder* handle, graft_context* context) : handle_(handle), context_(context) {}
  template <typename Call>
  Result<Embeddings> vectors(std::size_t count, Call call) {
    const float* numbers = nullptr;
    Status done = detail::to_status(call(&numbers), context_);
    if (!done.ok()) return done;
    return Embeddings{width(), std::vector<float>(numbers, numbers + count * width()), {}};
  }
  detail::Handle<graft_embedder, graft_embedder_destroy> handle_;
  graft_context* context_;
};

}  // namespace v0
}  // namespace graft

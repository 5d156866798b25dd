// What graft.hpp says of language models: tokenizers, conversations, generators. Included by graft.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graft/base.hpp"
#include "graft/source.hpp"

namespace graft {
inline namespace v0 {

/// As graft_generator_options.
struct GeneratorOptions {
  std::uint32_t context = 0;  ///< tokens of prompt and answer together; 0: the model's own, at most 2048
  std::uint32_t prefill = 0;  ///< tokens of a prompt taken at a time; 0: 64
  std::uint64_t budget = 0;   ///< bytes of device memory; 0: no limit
  graft_precision precision = GRAFT_PRECISION_F32;
  bool recover_device = false;      ///< goes on where the device was lost
  std::uint32_t prompt_lookup = 0;  ///< tokens that are guessed from the text and verified in one run; 0: none
  graft_cache_format cache = GRAFT_CACHE_F32;  ///< how keys and values of earlier tokens are kept
};

/// As graft_logit_bias.
using LogitBias = graft_logit_bias;
/// As graft_token_probability.
using TokenProbability = graft_token_probability;

/// As graft_generate_options.
struct GenerateOptions {
  std::uint32_t max_tokens = 256;
  double temperature = 0;  ///< 0: always the most probable token
  std::uint32_t top_k = 0;
  double top_p = 1;
  double min_p = 0;
  double repetition_penalty = 1;
  std::uint64_t seed = 0;
  std::vector<std::string> stop = {};                  ///< the text ends before any of these
  std::function<bool(std::string_view)> on_text = {};  ///< gets pieces as they become certain; false ends the text
  /// Gets each token as it is chosen, and the model's scores for its place; false makes it the last.
  std::function<bool(std::int32_t token, std::span<const float> logits)> on_token = {};
  std::vector<LogitBias> bias = {};  ///< what is added to tokens' scores
  bool log_probabilities = false;    ///< Generated has those of all tokens
  std::uint32_t most_probable = 0;   ///< and those of so many most probable tokens beside each
  /// What the text has to follow, one of the two at most: rules as llama.cpp has them (GBNF), or a JSON schema.
  std::string grammar = {}, json_schema = {};
};

/// As graft_generated, on its own feet.
struct Generated {
  std::string text;
  std::vector<std::int32_t> tokens;  ///< without the one that ended the text
  graft_stop_reason reason = GRAFT_STOP_MAX_TOKENS;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;  ///< of the prompt, that the call before had computed
  double prompt_ms = 0;
  double generated_ms = 0;
  double first_token_ms = 0;  ///< from the call to its first token
  std::uint32_t drafted_tokens = 0;
  std::uint32_t right_drafts = 0;
  std::vector<float> log_probabilities;         ///< one for each token, where asked for
  std::vector<TokenProbability> most_probable;  ///< as many for each token, the most probable first
};

/// One turn of a conversation.
struct ChatMessage {
  std::string role;  ///< "system", "user" or "assistant"
  std::string text;
};

/// How a model's text becomes tokens, and conversations prompts; see graft/language.h.
class Tokenizer {
 public:
  /// How many tokens there are.
  std::size_t size() const { return graft_tokenizer_size(handle_.get()); }
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
    return raw;
  }
  detail::Handle<graft_tokenizer, graft_tokenizer_destroy> handle_;
  graft_context* context_;
};

/// Writes text with a language model.
class Generator {
 public:
  /// Swaps the adapters for those of a file; an empty path: as without any. See graft/adapters.h.
  Status swap_adapters(const std::string& path) {
    return status(graft_generator_swap_adapters(handle_.get(), detail::or_null(path)));
  }
  /// The same, for those of a source.
  Status swap_adapters(const Source& source) {
    const graft_source raw = source.raw();
    return status(graft_generator_swap_adapters_source(handle_.get(), &raw));
  }
  Status pause() { return status(graft_generator_pause(handle_.get())); }    ///< as Session::pause()
  Status resume() { return status(graft_generator_resume(handle_.get())); }  ///< as Session::resume()
  /// What the model says after the prompt.
  Result<std::string> generate(const std::string& prompt, const GenerateOptions& options = {}) {
    const Raw raw(options);
    const char* text = nullptr;
    std::size_t bytes = 0;
    Status done = status(graft_generate(handle_.get(), prompt.c_str(), &raw.options, &text, &bytes));
    if (!done.ok()) return done;
    return std::string(text, bytes);
  }
  /// The same after tokens, as Tokenizer gives them. The turns of a conversation cost their new tokens only.
  Result<Generated> generate(std::span<const std::int32_t> prompt, const GenerateOptions& options = {}) {
    const Raw raw(options);
    Status done = status(graft_generate_tokens(handle_.get(), prompt.data(), prompt.size(), &raw.options, nullptr));
    if (!done.ok()) return done;
    return last();
  }
  /// What the last call of either gave.
  Result<Generated> last() const {
    auto raw = detail::sized<graft_generated>();
    Status got = status(graft_generator_last(handle_.get(), &raw));
    if (!got.ok()) return got;
    Generated out;
    out.text.assign(raw.text, raw.bytes);
    out.tokens.assign(raw.tokens, raw.tokens + raw.token_count);
    out.reason = raw.reason;
    out.prompt_tokens = raw.prompt_tokens;
    out.cached_tokens = raw.cached_tokens;
    out.prompt_ms = raw.prompt_ms;
    out.generated_ms = raw.generated_ms;
    out.first_token_ms = raw.first_token_ms;
    out.drafted_tokens = raw.drafted_tokens;
    out.right_drafts = raw.right_drafts;
    if (raw.log_probabilities != nullptr) {
      out.log_probabilities.assign(raw.log_probabilities, raw.log_probabilities + raw.token_count);
      const std::size_t all = raw.token_count * raw.most_probable_count;
      out.most_probable.assign(raw.most_probable, raw.most_probable + all);
    }
    return out;
  }
  graft_generator* get() const { return handle_.get(); }  ///< for what only the C ABI has
  /// Bytes that it holds on device and host, by class.
  Result<Memory> memory() const {
    auto memory = detail::sized<Memory>();
    Status got = status(graft_generator_memory(handle_.get(), &memory));
    if (!got.ok()) return got;
    return memory;
  }

 private:
  /// The options as C takes them; refers to them.
  struct Raw {
    explicit Raw(const GenerateOptions& from) {
      for (const std::string& text : from.stop) stop.push_back(text.c_str());
      options.max_tokens = from.max_tokens;
      options.temperature = from.temperature;
      options.top_k = from.top_k;
      options.top_p = from.top_p;
      options.min_p = from.min_p;
      options.repetition_penalty = from.repetition_penalty;
      options.seed = from.seed;
      options.stop = stop.data();
      options.stop_count = stop.size();
      options.bias = from.bias.data();
      options.bias_count = from.bias.size();
      options.log_probabilities = from.log_probabilities ? 1 : 0;
      options.most_probable = from.most_probable;
      options.grammar = detail::or_null(from.grammar);
      options.json_schema = detail::or_null(from.json_schema);
      options.user = const_cast<GenerateOptions*>(&from);  // handed back as const
      if (from.on_text) {
        options.on_text = [](void* user, const char* text, std::size_t bytes) {
          return static_cast<const GenerateOptions*>(user)->on_text(std::string_view(text, bytes)) ? 1 : 0;
        };
      }
      if (from.on_token) {
        options.on_token = [](void* user, std::int32_t token, const float* logits, std::size_t vocabulary) {
          const std::span scores(logits, vocabulary);
          return static_cast<const GenerateOptions*>(user)->on_token(token, scores) ? 1 : 0;
        };
      }
    }
    std::vector<const char*> stop;
    graft_generate_options options = detail::sized<graft_generate_options>();
  };

  friend class Model;
  Generator(graft_generator* handle, graft_context* context) : handle_(handle), context_(context) {}
  Status status(graft_status code) const { return detail::to_status(code, context_); }
  detail::Handle<graft_generator, graft_generator_destroy> handle_;
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

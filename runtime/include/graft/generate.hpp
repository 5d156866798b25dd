// What graft.hpp says of texts that language models write. Included by graft.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
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
  std::uint32_t sequences = 0;  ///< texts that are written at once, as Generator::submit() takes them; 0: one by one
};

/// As graft_generator_info.
struct GeneratorInfo {
  std::uint32_t context = 0;    ///< tokens of prompt and answer together
  std::uint32_t sequences = 0;  ///< texts that are written at once; 0: one after the other
  bool verifies_drafts = false;
  std::string streaming;  ///< what is streamed to keep to the budget; empty: nothing
};

/// As graft_logit_bias.
using LogitBias = graft_logit_bias;
/// As graft_token_probability.
using TokenProbability = graft_token_probability;

/// As graft_generate_options. If on_text or on_token throws, the text ends and the call throws the same.
struct GenerateOptions {
  std::uint32_t max_tokens = 256;  ///< 0: the caches take the prompt in, and nothing is generated
  double temperature = 0;          ///< 0: always the most probable token
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
  /// Queues a text, where GeneratorOptions::sequences are written at once, and gives its name: see graft/generate.h.
  Result<std::uint64_t> submit(const std::string& prompt, const GenerateOptions& options = {}) {
    return submitted(options, [&](const graft_generate_options* raw, std::uint64_t* id) {
      return graft_generator_submit(handle_.get(), prompt.c_str(), raw, id);
    });
  }
  /// The same after tokens.
  Result<std::uint64_t> submit(std::span<const std::int32_t> prompt, const GenerateOptions& options = {}) {
    return submitted(options, [&](const graft_generate_options* raw, std::uint64_t* id) {
      return graft_generator_submit_tokens(handle_.get(), prompt.data(), prompt.size(), raw, id);
    });
  }
  /// One run for all texts that are under way; the number of those that are not finished then.
  Result<std::size_t> step() {
    std::size_t unfinished = 0;
    Status done = status(graft_generator_step(handle_.get(), &unfinished));
    if (!done.ok()) return done;
    return unfinished;
  }
  /// A text that is finished.
  struct Finished {
    std::uint64_t id = 0;  ///< 0: there is none
    Result<Generated> text = Generated();
  };
  /// The next of them, each once.
  Finished finished() {
    Finished out;
    const Status got = status(graft_generator_finished(handle_.get(), &out.id, nullptr));
    submitted_.erase(out.id);
    if (!got.ok()) {
      out.text = got;
    } else if (out.id != 0) {
      out.text = last();
    }
    return out;
  }
  /// Ends a text that is queued or under way.
  Status drop(std::uint64_t id) {
    Status done = status(graft_generator_drop(handle_.get(), id));
    submitted_.erase(id);
    return done;
  }
  /// What became of the options.
  Result<GeneratorInfo> describe() {
    auto raw = detail::sized<graft_generator_info>();
    Status got = status(graft_generator_describe(handle_.get(), &raw));
    if (!got.ok()) return got;
    return GeneratorInfo{raw.context, raw.sequences, raw.verifies_drafts != 0, raw.streaming};
  }
  /// Whether no text depends, to the bit, on those that are written beside it: see graft_generator_rows_agree.
  Result<bool> rows_agree() {
    int agree = 0;
    Status got = status(graft_generator_rows_agree(handle_.get(), &agree));
    if (!got.ok()) return got;
    return agree != 0;
  }
  graft_generator* get() const { return handle_.get(); }  ///< for what only the C ABI has
  graft_context* context() const { return context_; }     ///< for what only the C ABI has
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
          const auto& of = *static_cast<const GenerateOptions*>(user);
          const auto told = [&] { return of.on_text(std::string_view(text, bytes)); };
          return detail::Thrown::caught(nullptr, false, told) ? 1 : 0;
        };
      }
      if (from.on_token) {
        options.on_token = [](void* user, std::int32_t token, const float* logits, std::size_t vocabulary) {
          const auto& of = *static_cast<const GenerateOptions*>(user);
          const auto told = [&] { return of.on_token(token, std::span(logits, vocabulary)); };
          return detail::Thrown::caught(nullptr, false, told) ? 1 : 0;
        };
      }
    }
    std::vector<const char*> stop;
    graft_generate_options options = detail::sized<graft_generate_options>();
  };

  template <typename Call>
  Result<std::uint64_t> submitted(const GenerateOptions& options, Call call) {
    auto kept = std::make_unique<GenerateOptions>(options);  // whose callbacks are called later
    const Raw raw(*kept);
    std::uint64_t id = 0;
    const graft_status code = call(&raw.options, &id);
    if (code == GRAFT_OK) submitted_[id] = std::move(kept);
    Status done = status(code);
    if (!done.ok()) return done;
    return id;
  }

  friend class Model;
  Generator(graft_generator* handle, graft_context* context) : handle_(handle), context_(context) {}
  Status status(graft_status code) const { return detail::to_status(code, context_); }
  std::map<std::uint64_t, std::unique_ptr<GenerateOptions>> submitted_;
  detail::Handle<graft_generator, graft_generator_destroy> handle_;
  graft_context* context_;
};

}  // namespace v0
}  // namespace graft

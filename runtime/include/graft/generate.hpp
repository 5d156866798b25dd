// Texts that language models write. Included by graft.hpp.
#pragma once

#include <map>
#include <memory>

#include "graft/generator_calls.hpp"

namespace graft {
inline namespace v0 {

/// An owning copy of graft_generated.
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
  std::vector<float> log_probabilities;                ///< one for each token, where asked for
  std::vector<graft_token_probability> most_probable;  ///< as many for each token, the most probable first
};

namespace detail {

/// Texts that were queued, whose functions are called later: they outlive the generator.
struct SubmittedTexts {
  struct Text {
    explicit Text(const GenerateOptions& from) : options(from), raw(options) {}
    GenerateOptions options;
    RawGenerateOptions raw;
  };
  std::map<std::uint64_t, std::unique_ptr<Text>> submitted_;
};

}  // namespace detail

/// Writes text with a language model: Model::generator() makes it.
class Generator : private detail::SubmittedTexts, public detail::GeneratorCalls {
 public:
  using GeneratorCalls::generate;
  using GeneratorCalls::GeneratorCalls;
  /// As generate(text), after tokens, as Tokenizer gives them. The turns of a conversation cost their new tokens only.
  Result<Generated> generate(std::span<const std::int32_t> prompt, const GenerateOptions& options = {}) {
    const detail::RawGenerateOptions raw(options);
    const Status done = status(graft_generate_tokens(get(), prompt.data(), prompt.size(), raw.get(), nullptr));
    if (!done.ok()) return done;
    return last();
  }
  /// What the last call of either gave.
  Result<Generated> last() const {
    auto raw = detail::sized<graft_generated>();
    const Status got = status(graft_generator_last(get(), &raw));
    if (!got.ok()) return got;
    const std::size_t scored = raw.log_probabilities == nullptr ? 0 : raw.token_count;
    return Generated{std::string(raw.text, raw.bytes),
                     {raw.tokens, raw.tokens + raw.token_count},
                     raw.reason,
                     raw.prompt_tokens,
                     raw.cached_tokens,
                     raw.prompt_ms,
                     raw.generated_ms,
                     raw.first_token_ms,
                     raw.drafted_tokens,
                     raw.right_drafts,
                     {raw.log_probabilities, raw.log_probabilities + scored},
                     {raw.most_probable, raw.most_probable + scored * raw.most_probable_count}};
  }
  /// Queues a text, if GeneratorOptions::sequences are written at once, and gives its name: see graft/generate.h.
  Result<std::uint64_t> submit(const std::string& prompt, const GenerateOptions& options = {}) {
    return queued(options, [&](const graft_generate_options* raw, std::uint64_t* id) {
      return graft_generator_submit(get(), prompt.c_str(), raw, id);
    });
  }
  /// The same after tokens.
  Result<std::uint64_t> submit(std::span<const std::int32_t> prompt, const GenerateOptions& options = {}) {
    return queued(options, [&](const graft_generate_options* raw, std::uint64_t* id) {
      return graft_generator_submit_tokens(get(), prompt.data(), prompt.size(), raw, id);
    });
  }
  /// A text that is finished.
  struct Finished {
    std::uint64_t id = 0;  ///< 0: there is none
    Result<Generated> text = Generated();
  };
  /// The next of them, each once.
  Finished finished() {
    Finished out;
    const Status got = status(graft_generator_finished(get(), &out.id, nullptr));
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
    Status done = status(graft_generator_drop(get(), id));
    submitted_.erase(id);
    return done;
  }

 private:
  template <typename Call>
  Result<std::uint64_t> queued(const GenerateOptions& options, Call call) {
    auto kept = std::make_unique<Text>(options);
    std::uint64_t id = 0;
    const graft_status code = call(kept->raw.get(), &id);
    if (code == GRAFT_OK) submitted_[id] = std::move(kept);
    const Status done = status(code);
    if (!done.ok()) return done;
    return id;
  }
};

}  // namespace v0
}  // namespace graft

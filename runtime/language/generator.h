// Text from a language model, token by token: prefill, then one recorded decode step for every token.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/language/cached_text.h"
#include "runtime/language/decode_machine.h"
#include "runtime/language/text_writer.h"
#include "runtime/text/prompt_lookup.h"

namespace graft {

/// Tokens of prompt and answer: what was asked for or, for 0, the model's own, at most 2048. invalid_argument: more
/// than the model was made for.
Result<std::uint32_t> context_for(const Model& model, std::uint32_t asked);

/// Threads: as its device, which must outlive it, as must the model.
class Generator {
 public:
  /// Plans and records both programs; all device memory, caches included, is allocated here.
  /// unsupported: a model that decode_graph() cannot make go on.
  static Result<std::unique_ptr<Generator>> create(gpu::Device& device, const Model& model,
                                                   const GeneratorOptions& options = {});

  /// The same prompt, options and seed give the same text. A prompt that begins as the one before did, answer
  /// included, costs its new tokens only.
  /// invalid_argument: an empty prompt, an id that the model does not know, a prompt that leaves no room, options out
  /// of range; not_found: a text prompt or a stop string where the model has no tokenizer.
  Result<Generated> generate(std::span<const text::TokenId> prompt, const GenerateOptions& options = {},
                             const TextCallback& on_text = {});
  Result<Generated> generate(std::string_view prompt, const GenerateOptions& options = {},
                             const TextCallback& on_text = {});

  /// Other adapters in place of those that are on (LiveAdapters::swap). What the caches hold is forgotten.
  Status swap_adapters(const Model* adapter);

  /// nullptr where the model has none.
  const text::Tokenizer* tokenizer() const { return model_.tokenizer(); }
  std::uint32_t context() const { return context_; }
  /// Whether drafts of prompt lookup are verified. false where none were asked for, and where this device's kernels
  /// give a row among several other bits than alone.
  bool verifies_drafts() const { return verifies_drafts_; }
  /// Planned and allocated; the caches count as activations.
  MemoryByClass memory() const { return machine_->planned(); }
  /// What is streamed to keep to the budget: a sentence, or nothing.
  std::string streaming() const { return machine_->streaming(); }

  /// As of a session: what was said so far stays in the caches, which wait with the host.
  Status pause();
  Status resume();
  bool is_paused() const { return machine_->is_paused(); }

 private:
  static constexpr std::size_t kDecode = 0, kPrefill = 1, kVerify = 2;  ///< programs

  Generator() = default;
  /// Repeats the attempt on another device where this one is lost.
  template <typename Try>
  Status on_device(Try attempt) {
    return machine_->on_device(
        [&]() -> Status {
          if (must_replay_) GRAFT_TRY(replay());
          return attempt();
        },
        [&] { must_replay_ = !cached_.empty(); },
        // On what may be another device.
        [&](bool lost) { return lost && makes_drafts() ? compare_verified() : ok_status(); });
  }
  bool makes_drafts() const { return longest_draft_ != 0; }
  Status replay();
  Status start(std::size_t program, std::span<const text::TokenId> tokens);
  void note_run(std::span<const text::TokenId> tokens, bool single);
  Status try_run(std::span<const text::TokenId> tokens, bool single);
  Status try_verify(std::span<const text::TokenId> tokens);
  Status compare_verified();
  void forget_from(std::size_t tokens);
  bool holds_what_is_seen(std::size_t tokens) const;
  Status run(std::span<const text::TokenId> tokens);
  Status prefill(std::span<const text::TokenId> prompt);
  Status write(std::span<const text::TokenId> prompt, TextWriter& writer, std::chrono::steady_clock::time_point begun);
  Result<std::span<const float>> decode(text::TokenId token);
  Result<std::span<const float>> decode_ahead(std::span<const text::TokenId> text, Generated& out);
  std::span<const float> logits_of(std::size_t program, std::size_t row) const;

  /// For one token, for some of a prompt, and for several with the logits of each where drafts are made.
  std::unique_ptr<DecodeMachine> machine_;
  TextModel model_;
  TextConstraints constraints_;
  std::vector<text::TokenId> cached_;   ///< whose keys and values the caches hold
  std::vector<CachedRun> runs_;         ///< how they were computed
  std::uint32_t furthest_ = 0;          ///< position that a run began at since the caches were empty
  std::vector<std::uint32_t> windows_;  ///< of caches that forget
  text::PromptLookup lookup_{0};
  std::vector<text::TokenId> ahead_;  ///< what was verified: a token of the text, and a draft of those that follow
  std::size_t next_row_ = 0;          ///< of its logits
  bool verifies_drafts_ = false;
  std::uint32_t few_ = 1;  ///< tokens that decode steps take sooner than a chunk would
  std::uint32_t longest_draft_ = 0;
  bool must_replay_ = false;  ///< the caches do not hold it: it was lost with the device
  std::uint32_t context_ = 0;
};

}  // namespace graft

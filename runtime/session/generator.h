// Text from a language model, token by token: prefill, then one recorded decode step for every token.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/exec/host_state.h"
#include "runtime/exec/lost_device.h"
#include "runtime/exec/program.h"
#include "runtime/lora/live_adapters.h"
#include "runtime/model/model.h"
#include "runtime/text/sampling.h"
#include "runtime/text/tokenizer.h"

namespace graft {

struct GeneratorOptions {
  std::uint32_t context = 0;   ///< tokens of prompt and answer; 0: the model's own, at most 2048
  std::uint32_t prefill = 64;  ///< tokens of a prompt at a time
  /// How the device keeps results on the way, and weights: f32, f16 or bf16. Caches stay f32.
  DType precision = DType::f32;
  PlanOptions plan;
  ProgramOptions program;
  /// Gives another device where this one is lost. A call goes on there to the same bits: what the caches held is
  /// computed again, by the same steps. Adapters that are swapped in are kept with the host. Empty: such a call is
  /// device_lost.
  Reopen reopen = {};
};

/// Gets each token as it is chosen, and the scores that the model gave (before sampling); false: it is the last.
using TokenCallback = std::function<bool(text::TokenId, std::span<const float> logits)>;

struct GenerateOptions {
  std::uint32_t max_tokens = 256;
  text::SamplingOptions sampling;
  std::vector<std::string> stop;  ///< the text ends before any of these
  TokenCallback on_token = {};
};

enum class StopReason : std::uint8_t { end_of_text, max_tokens, stop_string, context_full, callback };
std::string_view stop_reason_name(StopReason reason);  ///< "end_of_text"

struct Generated {
  std::vector<text::TokenId> tokens;  ///< without the token that ends a text
  std::string text;                   ///< empty where the model has no tokenizer
  StopReason reason = StopReason::max_tokens;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t reused_tokens = 0;  ///< of the prompt, found in the cache
  double prefill_seconds = 0;
  double decode_seconds = 0;  ///< of tokens.size() steps, and of one more where a token ended the text
};

/// Gets each piece of text once it is certain; false ends the text.
using TextCallback = std::function<bool(std::string_view)>;

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
  const text::Tokenizer* tokenizer() const { return tokenizer_ ? &*tokenizer_ : nullptr; }
  std::uint32_t context() const { return context_; }
  /// Planned and allocated; the caches count as activations.
  MemoryByClass memory() const;
  /// What is streamed to keep to the budget: a sentence, or nothing.
  std::string streaming() const;

  /// As of a session: what was said so far stays in the caches, which wait with the host.
  Status pause();
  Status resume();
  bool is_paused() const { return paused_.has_value(); }

 private:
  struct Paused {
    Residents residents;
    Plan prefill, decode;
    HostState state;
    bool lost = false;  ///< the caches were lost with a device
  };
  /// Tokens that one run appended.
  struct CachedRun {
    std::uint32_t tokens;
    bool single;  ///< by the program for one token
  };
  Generator() = default;
  Status check(std::span<const text::TokenId> prompt, const GenerateOptions& options) const;
  /// Repeats the attempt on another device where this one is lost.
  template <typename Try>
  Status on_device(Try attempt) {
    return through_losses(reopen_, attempt, [&](const Status&) { return recover(); });
  }
  Status recover();
  Status replay();
  Status keep_adapters();
  Status try_pause();
  Status try_resume();
  Status try_run(std::span<const text::TokenId> tokens, bool single);
  void forget_from(std::size_t tokens);
  Status run(std::span<const text::TokenId> tokens);
  Status prefill(std::span<const text::TokenId> prompt);
  Result<std::span<const float>> decode(text::TokenId token);

  const Plan& prefill_plan() const { return paused_ ? paused_->prefill : prefill_->plan(); }
  const Plan& decode_plan() const { return paused_ ? paused_->decode : decode_->plan(); }
  const Residents& residents() const { return paused_ ? paused_->residents : memory_->residents(); }

  gpu::Device* device_ = nullptr;
  const Model* model_ = nullptr;
  ProgramOptions program_options_;
  Graph decoding_;
  std::optional<Paused> paused_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Program> prefill_;
  std::unique_ptr<Program> decode_;
  std::optional<text::Tokenizer> tokenizer_;
  std::vector<text::TokenId> stop_tokens_;
  std::vector<text::TokenId> cached_;  ///< whose keys and values the caches hold
  std::vector<CachedRun> runs_;        ///< how they were computed
  HostState kept_, next_kept_;         ///< adapters that were swapped in, where the device may be lost
  bool must_replay_ = false;           ///< they do not hold it: it was lost with the device
  Reopen reopen_;
  LiveAdapters adapters_;
  std::uint32_t context_ = 0;
  std::int64_t vocabulary_ = 0;
};

}  // namespace graft

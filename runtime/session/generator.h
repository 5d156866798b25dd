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
#include "runtime/text/grammar/matcher.h"
#include "runtime/text/prompt_lookup.h"
#include "runtime/text/sampling.h"
#include "runtime/text/tokenizer.h"

namespace graft {

struct GeneratorOptions {
  std::uint32_t context = 0;   ///< tokens of prompt and answer; 0: the model's own, at most 2048
  std::uint32_t prefill = 64;  ///< tokens of a prompt at a time
  /// Tokens that are guessed from what the text says before and verified in one run (prompt lookup); 0: none. What is
  /// generated is the same: such a run is used where it is found to give the bits of one token at a time.
  std::uint32_t prompt_lookup = 0;
  /// How the device keeps results on the way, and weights: f32, f16 or bf16.
  DType precision = DType::f32;
  /// How the caches keep keys and values, whatever precision is: the same, or q8_0.
  DType cache = DType::f32;
  /// Caches of layers with a window hold what it sees, and no more; false: all that there was. The same bits where a
  /// kernel goes through keys alike, whatever their number.
  bool forget = true;
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
  /// What the text has to follow, one of the two at most: a grammar (Grammar::parse), or a JSON schema
  /// (grammar_of_schema). Tokens that would leave it are never chosen, and the text ends where nothing may follow.
  std::string grammar, json_schema;
  bool log_probabilities = false;   ///< of every token that is generated
  std::uint32_t most_probable = 0;  ///< with log_probabilities: so many tokens beside each
  TokenCallback on_token = {};
};

enum class StopReason : std::uint8_t { end_of_text, max_tokens, stop_string, context_full, callback };
std::string_view stop_reason_name(StopReason reason);  ///< "end_of_text"

struct Generated {
  std::vector<text::TokenId> tokens;  ///< without the token that ends a text
  std::string text;                   ///< empty where the model has no tokenizer
  StopReason reason = StopReason::max_tokens;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t reused_tokens = 0;                    ///< of the prompt, found in the cache
  std::uint32_t drafted_tokens = 0;                   ///< guessed by prompt lookup
  std::uint32_t right_drafts = 0;                     ///< of these, what the model said as well
  std::vector<float> log_probabilities;               ///< of tokens, where asked for
  std::vector<text::TokenProbability> most_probable;  ///< of each token as many, the most probable first
  double first_token_seconds = 0;                     ///< from the call to the first token, or what stood in its place
  double prefill_seconds = 0;
  double decode_seconds = 0;  ///< of tokens.size() steps, and of one more where a token ended the text
};

/// Gets each piece of text once it is certain; false ends the text.
using TextCallback = std::function<bool(std::string_view)>;

class TextStream;

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
  /// Whether drafts of prompt lookup are verified. false where none were asked for, and where this device's kernels
  /// give a row among several other bits than alone.
  bool verifies_drafts() const { return verifies_drafts_; }
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
    std::optional<Plan> verify;
    HostState state;
    bool lost = false;  ///< the caches were lost with a device
  };
  /// What texts follow, and what was found out about it.
  struct Constraint {
    std::string grammar, json_schema;  ///< as they were asked for
    text::Grammar rules;
    std::unique_ptr<text::GrammarMatcher> matcher = {};
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
  Paused as_paused(HostState state, bool lost) const;
  void give_back();
  Status keep_adapters();
  Status try_pause();
  Status try_resume();
  Status create_programs(Plan prefill, Plan decode, std::optional<Plan> verify, const ProgramOptions& options);
  Status start(Program& program, std::span<const text::TokenId> tokens);
  void note_run(std::span<const text::TokenId> tokens, bool single);
  Status try_run(std::span<const text::TokenId> tokens, bool single);
  Status try_verify(std::span<const text::TokenId> tokens);
  Status compare_verified();
  void forget_from(std::size_t tokens);
  bool holds_what_is_seen(std::size_t tokens) const;
  Status run(std::span<const text::TokenId> tokens);
  Status prefill(std::span<const text::TokenId> prompt);
  Status constrain(const GenerateOptions& options);
  Result<std::span<const std::uint64_t>> allowed_tokens();
  Result<bool> add_token(const GenerateOptions& options, text::Sampler& sampler, std::vector<text::TokenId>& text,
                         TextStream& stream, Generated& out);
  Result<std::span<const float>> decode(text::TokenId token);
  Result<std::span<const float>> decode_ahead(std::span<const text::TokenId> text, Generated& out);
  std::span<const float> logits_of(const Program& program, std::size_t row) const;

  const Plan& prefill_plan() const { return paused_ ? paused_->prefill : prefill_->plan(); }
  const Plan& decode_plan() const { return paused_ ? paused_->decode : decode_->plan(); }
  const Plan* verify_plan() const;
  std::vector<const Plan*> plans() const;
  const Residents& residents() const { return paused_ ? paused_->residents : memory_->residents(); }

  gpu::Device* device_ = nullptr;
  const Model* model_ = nullptr;
  ProgramOptions program_options_;
  Graph decoding_;
  std::optional<Paused> paused_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<Program> prefill_;
  std::unique_ptr<Program> decode_;
  std::unique_ptr<Program> verify_;  ///< several tokens, and the logits of each; null where no drafts are made
  std::optional<text::Tokenizer> tokenizer_;
  std::vector<text::TokenId> stop_tokens_;
  std::unique_ptr<text::TokenTable> token_table_;  ///< once a text was constrained
  std::unique_ptr<Constraint> constraint_;         ///< the last one
  bool is_constrained_ = false;                    ///< whether this text is
  std::vector<std::uint64_t> allowed_;
  std::vector<text::TokenId> cached_;   ///< whose keys and values the caches hold
  std::vector<CachedRun> runs_;         ///< how they were computed
  std::uint32_t furthest_ = 0;          ///< position that a run began at since the caches were empty
  std::vector<std::uint32_t> windows_;  ///< of caches that forget
  text::PromptLookup lookup_{0};
  std::vector<text::TokenId> ahead_;  ///< what verify_ ran: a token of the text, and a draft of those that follow
  std::size_t next_row_ = 0;          ///< of its logits
  bool verifies_drafts_ = false;
  std::uint32_t longest_draft_ = 0;
  HostState kept_, next_kept_;  ///< adapters that were swapped in, where the device may be lost
  bool must_replay_ = false;    ///< they do not hold it: it was lost with the device
  Reopen reopen_;
  LiveAdapters adapters_;
  std::uint32_t context_ = 0;
  std::int64_t vocabulary_ = 0;
};

}  // namespace graft

// How generators are made, how texts are asked for, and what is told of them.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/exec/lost_device.h"
#include "runtime/exec/program.h"
#include "runtime/plan/plan.h"
#include "runtime/text/sampling.h"

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
  /// Texts at once, for which BatchGenerator plans; 0: one after the other, as Generator takes them.
  std::uint32_t sequences = 0;
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

}  // namespace graft

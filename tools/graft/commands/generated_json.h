// What was generated, as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "tools/graft/commands/generate_flags.h"

namespace graft::cli {

/// What was generated, on its own feet: what the interface gives lasts until its next call.
struct Written {
  explicit Written(const graft_generated& from);

  std::string text;
  std::vector<std::int32_t> tokens;
  graft_generated numbers;  ///< pointers are null
  std::vector<float> log_probabilities;
  std::vector<graft_token_probability> most_probable;  ///< of each token as many
};

/// Text, tokens, why it ended, how long it took and, with --logprobs, how probable its tokens were. `tokenizer` may be
/// nullptr.
nlohmann::ordered_json generated_json(const Written& result, std::span<const std::int32_t> prompt,
                                      graft_tokenizer* tokenizer, const GenerateFlags& options);

}  // namespace graft::cli

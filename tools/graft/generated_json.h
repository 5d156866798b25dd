// What was generated, as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/graft/generate_flags.h"

namespace graft::cli {

/// Text, tokens, why it ended, how long it took and, with --logprobs, how probable its tokens were. `tokenizer` may be
/// nullptr.
nlohmann::ordered_json generated_json(const Generated& result, std::span<const text::TokenId> prompt,
                                      const text::Tokenizer* tokenizer, const GenerateFlags& options);

}  // namespace graft::cli

// Texts for many prompts, several at once.
#pragma once

#include <string>
#include <vector>

#include "tools/common/status.h"
#include "tools/graft/commands/generate_flags.h"

namespace graft::cli {

struct Prompt {
  std::string text;
  std::vector<std::int32_t> ids;
};

/// Of a file: a prompt a line, empty ones left out; of a .jsonl each line is a JSON string, a list of token ids, or an
/// object with one of these as its "prompt". An error where there is none.
Result<std::vector<Prompt>> read_prompts(const std::string& path);

/// Prints a text for each prompt, in their order, each as soon as those before are printed; or JSON at the end. Texts
/// that fail are named on stderr, and the first of them is the result.
Status generate_many(const GenerateFlags& options, graft_context* context, const OpenGenerator& generator,
                     const std::vector<Prompt>& prompts, const TextWishes& wanted, bool echo);

}  // namespace graft::cli

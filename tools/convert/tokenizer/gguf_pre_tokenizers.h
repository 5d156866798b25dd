// The pre-tokenizers that GGUF files name: "tokenizer.ggml.pre".
#pragma once

#include <span>
#include <string_view>
#include <vector>

namespace graft::convert {

struct PreTokenizer {
  std::vector<std::string_view> patterns;  ///< each cuts out its matches, one after the other
  bool whole_words;  ///< a word that is a token is not merged from bytes, and texts begin with the token for it
};

/// Null where the name is not known.
const PreTokenizer* gguf_pre_tokenizer(std::string_view name);

/// What the steps Punctuation and Digits, which join what they find, cut out: in patterns that are named.
inline constexpr std::string_view kPunctuation = R"(\p{P}+)", kNumbers = R"(\p{N}+)";

/// A name for these patterns; empty where there is none. `exact` (may be null): whether llama.cpp cuts by the same
/// ones.
std::string_view gguf_pre_name_of(std::span<const std::string_view> patterns, bool whole_words, bool* exact = nullptr);

}  // namespace graft::convert

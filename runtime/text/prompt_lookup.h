// Guesses of what a text goes on with, taken from the text itself: names, quotations and tables come again.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/text/tokenizer/vocabulary.h"

namespace graft::text {

/// Finds where a text stood before as it ends now, and gives what followed there (prompt lookup decoding).
class PromptLookup {
 public:
  /// Drafts of at most `most` tokens; 0: none.
  explicit PromptLookup(std::uint32_t most) : most_(most) {}

  /// What followed the longest such place, the latest of equals; part of `text`. Empty where there is none, and for
  /// some tokens after drafts of which nothing was right.
  std::span<const TokenId> draft(std::span<const TokenId> text);
  /// How many tokens of the last draft were right.
  void judge(std::size_t right);

 private:
  std::uint32_t most_;
  std::uint32_t wait_ = 0;   ///< tokens until the next draft
  std::uint32_t pause_ = 0;  ///< how long the next draft without a right token is followed by none
};

}  // namespace graft::text

// What the readers of several tokenizer formats share.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/base/status.h"
#include "runtime/text/tokenizer/vocabulary.h"

namespace graft::convert {

/// Merges written as "left right". corrupt: a line without a space, or a part that is no token.
Result<std::vector<std::pair<text::TokenId, text::TokenId>>> parse_merges(const text::Vocabulary& vocabulary,
                                                                          std::span<const std::string_view> lines);

/// Merges as pairs of spellings.
Result<std::vector<std::pair<text::TokenId, text::TokenId>>> parse_merges(
    const text::Vocabulary& vocabulary, std::span<const std::pair<std::string_view, std::string_view>> pairs);

/// SentencePiece's number of a token kind.
Result<text::TokenKind> token_kind(std::int64_t number);

}  // namespace graft::convert

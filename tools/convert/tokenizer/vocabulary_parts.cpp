#include "tools/convert/tokenizer/vocabulary_parts.h"

#include <unordered_map>

namespace graft::convert {

using Pairs = std::vector<std::pair<text::TokenId, text::TokenId>>;

Result<Pairs> parse_merges(const text::Vocabulary& vocabulary, std::span<const std::string_view> lines) {
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  pairs.reserve(lines.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    // The first part may itself be a space, where spaces are not written as another character.
    const std::size_t space = lines[i].find(' ', 1);
    if (space == std::string_view::npos || space + 1 == lines[i].size()) {
      return corrupt("Merge ", i, " of the tokenizer, \"", lines[i], "\", is not two tokens with a space between.");
    }
    pairs.emplace_back(lines[i].substr(0, space), lines[i].substr(space + 1));
  }
  return parse_merges(vocabulary, pairs);
}

Result<Pairs> parse_merges(const text::Vocabulary& vocabulary,
                           std::span<const std::pair<std::string_view, std::string_view>> pairs) {
  std::unordered_map<std::string_view, text::TokenId> ids;
  ids.reserve(vocabulary.tokens.size());
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    ids.emplace(vocabulary.tokens[i].text, static_cast<text::TokenId>(i));
  }
  Pairs out;
  out.reserve(pairs.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const auto left = ids.find(pairs[i].first);
    const auto right = ids.find(pairs[i].second);
    if (left == ids.end() || right == ids.end()) {
      return corrupt("Merge ", i, " of the tokenizer names \"", left == ids.end() ? pairs[i].first : pairs[i].second,
                     "\", which is no token.");
    }
    out.emplace_back(left->second, right->second);
  }
  return out;
}

Result<text::TokenKind> token_kind(std::int64_t number) {
  if (number < 1 || number > 6) return corrupt("The token type is ", number, "; types 1 to 6 are possible.");
  return static_cast<text::TokenKind>(number);
}

}  // namespace graft::convert

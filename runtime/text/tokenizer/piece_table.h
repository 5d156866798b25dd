// Tokens by their bytes, and bytes by their tokens.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "platform/base/status.h"
#include "runtime/text/tokenizer/vocabulary.h"

namespace graft::text {

inline constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581, which SentencePiece writes for a space

class PieceTable {
 public:
  explicit PieceTable(const Vocabulary& vocabulary);
  PieceTable(const PieceTable&) = delete;
  PieceTable& operator=(const PieceTable&) = delete;

  /// The token that may stand for `piece` in a text, in the form in which pieces are matched: raw bytes for byte_bpe,
  /// otherwise with U+2581 for spaces. kNoToken where there is none.
  TokenId find(std::string_view piece) const;
  /// The token for a byte; kNoToken where there is none.
  TokenId byte_token(unsigned char byte) const { return byte_tokens_[byte]; }
  /// A token's form in find().
  std::string_view piece(TokenId id) const { return pieces_[static_cast<std::size_t>(id)]; }
  /// What a token adds to a text.
  std::string_view output(TokenId id) const { return outputs_[static_cast<std::size_t>(id)]; }
  /// The token whose text in the vocabulary is `text`, of any kind.
  TokenId find_spelled(std::string_view text) const;

 private:
  std::vector<std::string> pieces_;
  std::vector<std::string> outputs_;
  std::unordered_map<std::string_view, TokenId> by_piece_;
  std::unordered_map<std::string_view, TokenId> by_text_;  ///< views into the vocabulary
  std::array<TokenId, 256> byte_tokens_;
};

}  // namespace graft::text

#include "runtime/text/piece_table.h"

#include <optional>

#include "runtime/text/byte_alphabet.h"

namespace graft::text {
namespace {

std::string with_spaces(std::string_view piece) {
  std::string out;
  for (std::size_t at = 0; at < piece.size();) {
    if (piece.substr(at).starts_with(kSpaceMark)) {
      out += ' ';
      at += kSpaceMark.size();
    } else {
      out += piece[at++];
    }
  }
  return out;
}

}  // namespace

PieceTable::PieceTable(const Vocabulary& vocabulary) {
  byte_tokens_.fill(kNoToken);
  const bool bytes = vocabulary.algorithm == Algorithm::byte_bpe;
  const std::size_t count = vocabulary.tokens.size();
  pieces_.reserve(count);  // the maps hold views of the strings: they must not move
  outputs_.reserve(count);
  by_piece_.reserve(count);
  by_text_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const Token& token = vocabulary.tokens[i];
    const auto id = static_cast<TokenId>(i);
    by_text_.emplace(token.text, id);
    const bool ordinary = token.kind == TokenKind::normal || token.kind == TokenKind::unused;
    const std::optional<std::string> raw = bytes && ordinary ? alphabet_bytes(token.text) : std::nullopt;
    const std::string& piece = pieces_.emplace_back(raw.value_or(token.text));
    if (const auto value = byte_token_value(token.text); !bytes && value && token.kind == TokenKind::byte) {
      byte_tokens_[*value] = id;
      outputs_.emplace_back(1, static_cast<char>(*value));
      continue;
    }
    outputs_.emplace_back(bytes || token.kind == TokenKind::control ? piece : with_spaces(piece));
    if (token.kind != TokenKind::normal && (bytes || token.kind != TokenKind::user_defined)) continue;
    by_piece_.emplace(piece, id);
    if (bytes && piece.size() == 1 && raw) byte_tokens_[static_cast<unsigned char>(piece[0])] = id;
  }
}

TokenId PieceTable::find(std::string_view piece) const {
  const auto found = by_piece_.find(piece);
  return found == by_piece_.end() ? kNoToken : found->second;
}

TokenId PieceTable::find_spelled(std::string_view text) const {
  const auto found = by_text_.find(text);
  return found == by_text_.end() ? kNoToken : found->second;
}

}  // namespace graft::text

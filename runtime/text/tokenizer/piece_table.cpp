#include "runtime/text/tokenizer/piece_table.h"

#include <optional>

#include "runtime/text/tokenizer/byte_alphabet.h"

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

/// Whether the model itself may make the token of a text.
bool makes(const Vocabulary& vocabulary, const Token& token) {
  if (token.kind == TokenKind::normal) return true;
  const bool bytes = vocabulary.algorithm == Algorithm::byte_bpe;
  return token.kind == TokenKind::user_defined && !token.apart && (!bytes || vocabulary.by_steps);
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
}

/// The spaces before punctuation and short forms that BERT's decoder takes away.
void tidy(std::string& text) {
  constexpr std::pair<std::string_view, std::string_view> kTidied[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kTidied) replace_all(text, from, to);
}

/// What a token adds to a text by the vocabulary's decoders; a vocabulary without any has U+2581 for spaces.
std::string decoded(const Vocabulary& vocabulary, const Token& token) {
  std::string out = token.text;
  if (token.kind == TokenKind::control) return out;
  if (vocabulary.decoders.empty()) {
    return vocabulary.algorithm == Algorithm::byte_bpe ? alphabet_bytes(out).value_or(out) : with_spaces(out);
  }
  for (const Step& step : vocabulary.decoders) {
    switch (step.kind) {
      case StepKind::byte_level: out = alphabet_bytes(out).value_or(out); break;
      case StepKind::byte_fallback:
        if (const auto value = byte_token_value(out)) out.assign(1, static_cast<char>(*value));
        break;
      case StepKind::replace: replace_all(out, step.text, step.with); break;
      case StepKind::metaspace: replace_all(out, step.text, " "); break;
      case StepKind::join_words:
        if (!step.text.empty() && out.starts_with(step.text)) {
          out.erase(0, step.text.size());
        } else {
          out.insert(out.begin(), ' ');
        }
        if (step.flag_a) tidy(out);
        break;
      case StepKind::drop_suffix: replace_all(out, step.text, " "); break;
      default: break;
    }
    constexpr std::size_t kLongest = 1 << 16;  // steps may grow it, and come from a file
    if (out.size() > kLongest) return token.text;
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
    const bool ordinary = token.kind == TokenKind::unused || makes(vocabulary, token);
    const std::optional<std::string> raw = bytes && ordinary ? alphabet_bytes(token.text) : std::nullopt;
    const std::string& piece = pieces_.emplace_back(raw.value_or(token.text));
    const auto value = token.kind == TokenKind::byte && !bytes ? byte_token_value(token.text) : std::nullopt;
    if (value) byte_tokens_[*value] = id;
    outputs_.push_back(vocabulary.by_steps                         ? decoded(vocabulary, token)
                       : value                                     ? std::string(1, static_cast<char>(*value))
                       : bytes || token.kind == TokenKind::control ? piece
                                                                   : with_spaces(piece));
    if (value || !makes(vocabulary, token) || (bytes && !raw)) continue;
    by_piece_.emplace(piece, id);
    if (bytes && piece.size() == 1) byte_tokens_[static_cast<unsigned char>(piece[0])] = id;
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

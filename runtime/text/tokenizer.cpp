#include "runtime/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <functional>
#include <unordered_map>

#include "platform/base/stable_sort.h"
#include "runtime/text/character_map.h"
#include "runtime/text/encoder.h"
#include "runtime/text/piece_table.h"
#include "runtime/text/pipeline.h"
#include "runtime/text/unicode.h"

namespace graft::text {
namespace {

constexpr std::size_t kMostTokens = std::size_t{1} << 24;
constexpr std::size_t kLongestText = std::size_t{1} << 30;

Status check_id(const Vocabulary& vocabulary, const std::string& what, TokenId id) {
  if (id >= 0 && static_cast<std::size_t>(id) < vocabulary.tokens.size()) return {};
  return corrupt("The tokenizer's ", what, " is token ", id, ", but the vocabulary has ", vocabulary.tokens.size(),
                 " tokens.");
}

Status check(const Vocabulary& vocabulary) {
  const std::size_t count = vocabulary.tokens.size();
  if (count == 0 || count > kMostTokens) {
    return corrupt("The tokenizer's vocabulary has ", count, " tokens; 1 to ", kMostTokens, " are possible.");
  }
  const std::pair<const char*, TokenId> named[] = {{"begin-of-text token", vocabulary.bos},
                                                   {"end-of-text token", vocabulary.eos},
                                                   {"unknown token", vocabulary.unknown},
                                                   {"padding token", vocabulary.pad},
                                                   {"mask token", vocabulary.mask}};
  for (const auto& [name, id] : named) {
    if (id != kNoToken) GRAFT_TRY(check_id(vocabulary, name, id));
  }
  for (const TokenId id : vocabulary.before) GRAFT_TRY(check_id(vocabulary, "prefix", id));
  for (const TokenId id : vocabulary.after) GRAFT_TRY(check_id(vocabulary, "suffix", id));
  for (const auto& [left, right] : vocabulary.merges) {
    GRAFT_TRY(check_id(vocabulary, "merge", left));
    GRAFT_TRY(check_id(vocabulary, "merge", right));
  }
  for (std::size_t i = 0; i < count; ++i) {
    // A score that is no number would leave the order of merges undefined.
    if (vocabulary.tokens[i].score != vocabulary.tokens[i].score) {
      return corrupt("Token ", i, " of the tokenizer has a score that is not a number.");
    }
  }
  return check_character_map(vocabulary.character_map);
}

/// Where the white space at the end of `text` begins.
std::size_t trailing_space(std::string_view text) {
  std::size_t end = 0;
  for (const CodePoint& point : code_points(text)) {
    if (!is_white_space(point.value)) end = point.begin + point.size;
  }
  return end;
}

bool begins_with_word(std::string_view text) { return !text.empty() && is_word(first_code_point(text).value); }

bool ends_in_word(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0 && text.size() - begin < 4) {
    --begin;
    const CodePoint last = first_code_point(text.substr(begin));
    if (last.value != kInvalidByte && last.size == text.size() - begin) return is_word(last.value);
  }
  return false;
}

std::size_t leading_space(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const CodePoint point = first_code_point(text.substr(at));
    if (!is_white_space(point.value)) break;
    at += point.size;
  }
  return at;
}

}  // namespace

std::string_view algorithm_name(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::byte_bpe: return "byte_bpe";
    case Algorithm::char_bpe: return "char_bpe";
    case Algorithm::scored_bpe: return "scored_bpe";
    case Algorithm::unigram: return "unigram";
    case Algorithm::word_piece: return "word_piece";
    case Algorithm::word_level: return "word_level";
  }
  return "";
}

/// On the heap, so that the encoder's references stay good when a Tokenizer moves.
struct Tokenizer::State {
  State(Vocabulary given, Pipeline steps)
      : vocabulary(std::move(given)), pieces(vocabulary), pipeline(std::move(steps)) {}

  Status index_special();
  TokenId special_at(std::string_view text, bool in_normal, bool parse_special) const;
  template <typename OnStretch>
  Status cut_at_special(std::string_view text, bool in_normal, bool parse_special, std::vector<TokenId>& out,
                        OnStretch on_stretch) const;
  Status encode_normal(std::string text, bool first, std::vector<TokenId>& out) const;
  Status encode_all(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out) const;
  const std::string& spelling(TokenId id) const {
    const auto normal = normal_spellings.find(id);
    return normal != normal_spellings.end() ? normal->second : vocabulary.tokens[static_cast<std::size_t>(id)].text;
  }

  Vocabulary vocabulary;
  PieceTable pieces;
  Pipeline pipeline;
  std::unique_ptr<Encoder> encoder;
  std::array<std::vector<TokenId>, 256> named;                ///< all special tokens by first byte, longest first
  std::array<std::vector<TokenId>, 256> special;              ///< those that are looked for in a text as it is
  std::array<std::vector<TokenId>, 256> special_normal;       ///< those that are looked for in normalized text
  std::unordered_map<TokenId, std::string> normal_spellings;  ///< of the latter, as normalized text has them
};

Status Tokenizer::State::index_special() {
  for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
    const Token& token = vocabulary.tokens[i];
    const auto id = static_cast<TokenId>(i);
    const bool is_special =
        token.kind == TokenKind::control || token.kind == TokenKind::user_defined || token.kind == TokenKind::unknown;
    if (!is_special || token.text.empty()) continue;
    named[static_cast<unsigned char>(token.text[0])].push_back(id);
    if (!token.normalized || !vocabulary.by_steps) {
      special[static_cast<unsigned char>(token.text[0])].push_back(id);
      continue;
    }
    GRAFT_TRY_ASSIGN(std::string normal, pipeline.normalize(token.text, true));
    if (normal.empty()) continue;
    special_normal[static_cast<unsigned char>(normal[0])].push_back(id);
    normal_spellings.emplace(id, std::move(normal));
  }
  const auto sort = [](auto& table, auto size_of) {
    for (auto& ids : table) graft::stable_sort(ids, [&](TokenId a, TokenId b) { return size_of(a) > size_of(b); });
  };
  sort(special, [&](TokenId id) { return spelling(id).size(); });
  sort(special_normal, [&](TokenId id) { return spelling(id).size(); });
  sort(named, [&](TokenId id) { return vocabulary.tokens[static_cast<std::size_t>(id)].text.size(); });
  return {};
}

/// The special token at `text`'s start, the longest one; kNoToken where there is none.
TokenId Tokenizer::State::special_at(std::string_view text, bool in_normal, bool parse_special) const {
  for (const TokenId id : (in_normal ? special_normal : special)[static_cast<unsigned char>(text[0])]) {
    if (vocabulary.tokens[static_cast<std::size_t>(id)].kind != TokenKind::user_defined && !parse_special) continue;
    if (text.starts_with(spelling(id))) return id;
  }
  return kNoToken;
}

/// Calls on_stretch(stretch, where it begins) for what lies between special tokens, which go to `out` themselves.
template <typename OnStretch>
Status Tokenizer::State::cut_at_special(std::string_view text, bool in_normal, bool parse_special,
                                        std::vector<TokenId>& out, OnStretch on_stretch) const {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const TokenId id = special_at(text.substr(at), in_normal, parse_special);
    if (id == kNoToken) {
      ++at;
      continue;
    }
    const Token& token = vocabulary.tokens[static_cast<std::size_t>(id)];
    const std::size_t end = at + spelling(id).size();
    if (token.single_word && (ends_in_word(text.substr(0, at)) || begins_with_word(text.substr(end)))) {
      at = end;
      continue;
    }
    std::string_view stretch = text.substr(begin, at - begin);
    if (token.strip_left) stretch = stretch.substr(0, trailing_space(stretch));
    if (!stretch.empty()) GRAFT_TRY(on_stretch(stretch, begin));
    out.push_back(id);
    at = end;
    if (token.strip_right) at += leading_space(text.substr(at));
    begin = at;
  }
  return begin < text.size() ? on_stretch(text.substr(begin), begin) : Status();
}

Status Tokenizer::State::encode_normal(std::string text, bool first, std::vector<TokenId>& out) const {
  GRAFT_TRY_ASSIGN(const Spans spans, pipeline.cut(std::move(text), first));
  for (std::size_t i = 0; i < spans.spans.size(); ++i) GRAFT_TRY(encoder->encode(spans.at(i), out));
  return {};
}

Status Tokenizer::State::encode_all(std::string_view text, const EncodeOptions& options,
                                    std::vector<TokenId>& out) const {
  const auto encode_stretch = [&](std::string_view stretch, std::size_t begin) -> Status {
    const bool first = begin == 0 && !options.continued;
    GRAFT_TRY_ASSIGN(std::string normal, pipeline.normalize(stretch, first));
    if (normal_spellings.empty()) return encode_normal(std::move(normal), first, out);
    return cut_at_special(normal, true, options.parse_special, out, [&](std::string_view part, std::size_t at) {
      return encode_normal(std::string(part), first && at == 0, out);
    });
  };
  return cut_at_special(text, false, options.parse_special, out, encode_stretch);
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::make(Vocabulary vocabulary) {
  GRAFT_TRY(check(vocabulary));
  GRAFT_TRY_ASSIGN(Pipeline pipeline, Pipeline::make(vocabulary));
  auto state = std::make_unique<State>(std::move(vocabulary), std::move(pipeline));
  GRAFT_TRY(state->index_special());
  const auto make_encoder = [&]() -> Result<std::unique_ptr<Encoder>> {
    switch (state->vocabulary.algorithm) {
      case Algorithm::unigram: return make_unigram(state->vocabulary, state->pieces);
      case Algorithm::word_piece: return make_word_piece(state->vocabulary, state->pieces);
      case Algorithm::word_level: return make_word_level(state->vocabulary, state->pieces);
      default: return make_bpe(state->vocabulary, state->pieces);
    }
  };
  GRAFT_TRY_ASSIGN(state->encoder, make_encoder());
  return Tokenizer(std::move(state));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() >= kLongestText) {
    return invalid("A text of ", text.size(), " bytes is too long to be encoded at once; the limit is ", kLongestText,
                   ".");
  }
  const Vocabulary& vocabulary = state_->vocabulary;
  std::vector<TokenId> out;
  if (options.add_special) out = vocabulary.before;
  GRAFT_TRY(state_->encode_all(text, options, out));
  if (options.add_special) out.insert(out.end(), vocabulary.after.begin(), vocabulary.after.end());
  return out;
}

std::span<const TokenId> Tokenizer::special_from(char first) const {
  return state_->named[static_cast<unsigned char>(first)];
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  StreamDecoder decoder(*this, options);
  std::string out;
  for (const TokenId id : ids) {
    GRAFT_TRY_ASSIGN(const std::string more, decoder.push(id));
    out += more;
  }
  return out + decoder.finish();
}

TokenId Tokenizer::find(std::string_view text) const { return state_->pieces.find_spelled(text); }
std::string_view Tokenizer::bytes_of(TokenId id) const { return state_->pieces.output(id); }
std::size_t Tokenizer::size() const { return state_->vocabulary.tokens.size(); }
const Vocabulary& Tokenizer::vocabulary() const { return state_->vocabulary; }

Result<std::string> StreamDecoder::push(TokenId id) {
  if (id < 0 || static_cast<std::size_t>(id) >= tokenizer_->size()) {
    return invalid("Token ", id, " cannot be decoded: the vocabulary has ", tokenizer_->size(), " tokens.");
  }
  const Vocabulary& vocabulary = tokenizer_->vocabulary();
  const TokenKind kind = vocabulary.tokens[static_cast<std::size_t>(id)].kind;
  if (kind == TokenKind::control && options_.skip_control) return std::string();
  std::string_view bytes = tokenizer_->bytes_of(id);
  const bool prefixed = (vocabulary.algorithm == Algorithm::word_piece && !vocabulary.by_steps) ||
                        vocabulary.space_prefix != SpacePrefix::none;
  if (kind != TokenKind::control && !bytes.empty()) {
    if (options_.at_start && prefixed && bytes.starts_with(' ')) bytes.remove_prefix(1);
    options_.at_start = false;
  }
  held_ += bytes;
  const std::size_t certain = held_.size() - incomplete_tail(held_);
  std::string out = valid_utf8(std::string_view(held_).substr(0, certain));
  held_.erase(0, certain);
  return out;
}

std::string StreamDecoder::finish() {
  std::string out = valid_utf8(held_);
  held_.clear();
  return out;
}

}  // namespace graft::text

#include "runtime/text/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <functional>
#include <unordered_map>

#include "platform/base/stable_sort.h"
#include "runtime/text/tokenizer/character_map.h"
#include "runtime/text/tokenizer/encoder.h"
#include "runtime/text/tokenizer/piece_table.h"
#include "runtime/text/tokenizer/pipeline.h"
#include "runtime/text/unicode/unicode.h"

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

bool all_zero(std::string_view marks) { return marks.find_first_not_of('\0') == std::string_view::npos; }

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

  /// One search for special tokens in a text.
  struct Search {
    enum class Where : std::uint8_t {
      raw,
      marked,  ///< in a text with marks: control tokens that other texts are searched for once they are normalized
      normal
    };
    Where where = Where::raw;
    bool control = false;                              ///< control tokens, too
    std::string_view marks = {};                       ///< as in EncodeOptions
    std::size_t offset = 0;                            ///< where the text begins in the whole
    std::vector<EncodedStretch>* stretches = nullptr;  ///< what is found
  };

  Status index_special();
  TokenId special_at(std::string_view text, std::size_t at, const Search& search) const;
  template <typename OnStretch>
  Status cut_at_special(std::string_view text, const Search& search, std::vector<TokenId>& out,
                        OnStretch on_stretch) const;
  Status encode_normal(std::string text, bool first, std::vector<TokenId>& out) const;
  Status encode_stretch(std::string_view text, std::size_t begin, const EncodeOptions& options,
                        std::vector<TokenId>& out) const;
  Status encode_all(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out,
                    std::vector<EncodedStretch>* stretches) const;
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

/// The special token that begins at that place, the longest one; kNoToken where there is none.
TokenId Tokenizer::State::special_at(std::string_view text, std::size_t at, const Search& search) const {
  using Where = Search::Where;
  const auto& table = search.where == Where::raw ? special : search.where == Where::marked ? named : special_normal;
  for (const TokenId id : table[static_cast<unsigned char>(text[at])]) {
    const Token& token = vocabulary.tokens[static_cast<std::size_t>(id)];
    const bool control = token.kind != TokenKind::user_defined;
    if (control && !search.control) continue;
    if (search.where == Where::marked && !(control && token.normalized)) continue;
    const std::string& spelled = search.where == Where::normal ? spelling(id) : token.text;
    if (!text.substr(at).starts_with(spelled)) continue;
    if (control && !search.marks.empty() && !all_zero(search.marks.substr(at, spelled.size()))) continue;
    return id;
  }
  return kNoToken;
}

/// Calls on_stretch(stretch, where it begins) for what lies between special tokens, which go to `out` themselves.
template <typename OnStretch>
Status Tokenizer::State::cut_at_special(std::string_view text, const Search& search, std::vector<TokenId>& out,
                                        OnStretch on_stretch) const {
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const TokenId id = special_at(text, at, search);
    if (id == kNoToken) {
      ++at;
      continue;
    }
    const Token& token = vocabulary.tokens[static_cast<std::size_t>(id)];
    const std::size_t end = at + (search.where == Search::Where::normal ? spelling(id) : token.text).size();
    if (token.single_word && (ends_in_word(text.substr(0, at)) || begins_with_word(text.substr(end)))) {
      at = end;
      continue;
    }
    std::string_view stretch = text.substr(begin, at - begin);
    if (token.strip_left) stretch = stretch.substr(0, trailing_space(stretch));
    if (!stretch.empty()) GRAFT_TRY(on_stretch(stretch, begin));
    if (search.stretches != nullptr) {
      search.stretches->push_back({search.offset + at, search.offset + end, out.size(), true});
    }
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

/// A text without special tokens but those that are looked for in normalized text.
Status Tokenizer::State::encode_stretch(std::string_view text, std::size_t begin, const EncodeOptions& options,
                                        std::vector<TokenId>& out) const {
  const bool first = begin == 0 && !options.continued;
  GRAFT_TRY_ASSIGN(std::string normal, pipeline.normalize(text, first));
  if (normal_spellings.empty()) return encode_normal(std::move(normal), first, out);
  // Bytes of normalized text have no marks of their own.
  const bool is_own = options.marks.empty() || all_zero(options.marks.substr(begin, text.size()));
  const Search search{.where = Search::Where::normal, .control = options.parse_special && is_own};
  return cut_at_special(normal, search, out, [&](std::string_view part, std::size_t at) {
    return encode_normal(std::string(part), first && at == 0, out);
  });
}

Status Tokenizer::State::encode_all(std::string_view text, const EncodeOptions& options, std::vector<TokenId>& out,
                                    std::vector<EncodedStretch>* stretches) const {
  const auto encode = [&](std::string_view stretch, std::size_t begin) {
    if (stretches != nullptr) stretches->push_back({begin, begin + stretch.size(), out.size(), false});
    return encode_stretch(stretch, begin, options, out);
  };
  Search search{.control = options.parse_special, .marks = options.marks, .stretches = stretches};
  return cut_at_special(text, search, out, [&](std::string_view stretch, std::size_t begin) {
    if (options.marks.empty() || normal_spellings.empty()) return encode(stretch, begin);
    Search marked = search;
    marked.where = Search::Where::marked;
    marked.marks = options.marks.substr(begin, stretch.size());
    marked.offset = begin;
    return cut_at_special(stretch, marked, out,
                          [&](std::string_view part, std::size_t at) { return encode(part, begin + at); });
  });
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

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, const EncodeOptions& options,
                                               std::vector<EncodedStretch>* stretches) const {
  if (text.size() >= kLongestText) {
    return invalid("A text of ", text.size(), " bytes is too long to be encoded at once; the limit is ", kLongestText,
                   ".");
  }
  const Vocabulary& vocabulary = state_->vocabulary;
  std::vector<TokenId> out;
  if (options.add_special) out = vocabulary.before;
  GRAFT_TRY(state_->encode_all(text, options, out, stretches));
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
  const bool special = kind == TokenKind::control || kind == TokenKind::unknown;
  if (special && options_.skip_control) return std::string();
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

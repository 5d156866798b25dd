// WordPiece, with the text preparation of BERT: words and punctuation apart, then the longest match from the left.
#include "runtime/text/encoder.h"
#include "runtime/text/unicode.h"

namespace graft::text {
namespace {

constexpr std::size_t kLongestWord = 100;  // characters; a longer word is unknown as a whole, as in BERT

bool is_ideograph(char32_t v) {
  return (v >= 0x4E00 && v <= 0x9FFF) || (v >= 0x3400 && v <= 0x4DBF) || (v >= 0x20000 && v <= 0x2A6DF) ||
         (v >= 0x2A700 && v <= 0x2B81F) || (v >= 0x2B820 && v <= 0x2CEAF) || (v >= 0xF900 && v <= 0xFAFF) ||
         (v >= 0x2F800 && v <= 0x2FA1F);
}

/// BERT counts all printable ASCII that is neither letter, digit nor space as punctuation.
bool is_punctuation(char32_t v) {
  if (v < 0x80) return v > ' ' && v < 0x7F && char_class(v) != CharClass::letter && char_class(v) != CharClass::number;
  return char_class(v) == CharClass::punctuation;
}

class WordPiece final : public Encoder {
 public:
  WordPiece(const Vocabulary& vocabulary, const PieceTable& pieces) : vocabulary_(vocabulary), pieces_(pieces) {}

  Status encode(std::string_view text, std::vector<TokenId>& out) const override {
    std::string word;
    std::size_t characters = 0;
    const auto flush = [&] {
      if (characters != 0) encode_word(word, characters, out);
      word.clear();
      characters = 0;
    };
    for (const char32_t value : prepared(text)) {
      const bool alone = is_punctuation(value) || is_ideograph(value);
      if (alone || is_white_space(value)) flush();
      if (is_white_space(value)) continue;
      append_utf8(word, value);
      ++characters;
      if (alone) flush();
    }
    flush();
    return {};
  }

 private:
  std::u32string prepared(std::string_view text) const {
    std::u32string out;
    for (const CodePoint& point : code_points(text)) {
      const char32_t v = point.value;
      const bool control = char_class(v) == CharClass::other && !is_white_space(v);
      if (v != 0xFFFD && !control) out += v;
    }
    if (vocabulary_.strip_accents) {
      out = normal_form_d(out);
      std::erase_if(out, [](char32_t v) { return char_class(v) == CharClass::nonspacing_mark; });
    }
    if (vocabulary_.lower_case) {
      for (char32_t& v : out) v = to_lower(v);
    }
    return out;
  }

  void encode_word(const std::string& word, std::size_t characters, std::vector<TokenId>& out) const {
    const std::size_t mark = out.size();
    const std::string marked = std::string(kSpaceMark) + word;
    std::size_t begin = 0;
    while (begin < marked.size() && characters <= kLongestWord) {
      std::size_t end = marked.size();
      TokenId id = kNoToken;
      for (; end > begin + (begin == 0 ? kSpaceMark.size() : 0); --end) {
        id = pieces_.find(std::string_view(marked).substr(begin, end - begin));
        if (id != kNoToken) break;
      }
      if (id == kNoToken) break;
      out.push_back(id);
      begin = end;
    }
    if (begin == marked.size()) return;
    out.resize(mark);
    out.push_back(vocabulary_.unknown);
  }

  const Vocabulary& vocabulary_;
  const PieceTable& pieces_;
};

}  // namespace

Result<std::unique_ptr<Encoder>> make_word_piece(const Vocabulary& vocabulary, const PieceTable& pieces) {
  if (vocabulary.unknown == kNoToken) return corrupt("The WordPiece vocabulary names no unknown token.");
  return std::unique_ptr<Encoder>(std::make_unique<WordPiece>(vocabulary, pieces));
}

}  // namespace graft::text

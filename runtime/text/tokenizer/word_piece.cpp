// WordPiece: the longest match from the left within a word. And word level: a word is one token.
#include "runtime/text/tokenizer/encoder.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text {
namespace {

class WordPiece final : public Encoder {
 public:
  WordPiece(const Vocabulary& vocabulary, const PieceTable& pieces) : vocabulary_(vocabulary), pieces_(pieces) {}

  Status encode(std::string_view word, std::vector<TokenId>& out) const override {
    const std::size_t mark = out.size();
    if (code_points(word).size() > vocabulary_.longest_word || !cut(word, out)) {
      out.resize(mark);
      out.push_back(vocabulary_.unknown);
    }
    return {};
  }

 private:
  /// Whether pieces cover the word.
  bool cut(std::string_view word, std::vector<TokenId>& out) const {
    // GGUF marks pieces that begin a word, tokenizer.json those that go on with one.
    const std::string_view first = vocabulary_.by_steps ? std::string_view() : kSpaceMark;
    const std::string_view inner = vocabulary_.inner_prefix;
    std::string piece;
    for (std::size_t begin = 0; begin < word.size();) {
      TokenId id = kNoToken;
      std::size_t end = word.size();
      for (; end > begin; end = before(word, end)) {
        piece.assign(begin == 0 ? first : inner).append(word.substr(begin, end - begin));
        id = pieces_.find(piece);
        if (id != kNoToken) break;
      }
      if (id == kNoToken) return false;
      out.push_back(id);
      begin = end;
    }
    return true;
  }

  /// Where the character that ends at `end` begins.
  static std::size_t before(std::string_view text, std::size_t end) {
    do --end;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80);
    return end;
  }

  const Vocabulary& vocabulary_;
  const PieceTable& pieces_;
};

class WordLevel final : public Encoder {
 public:
  WordLevel(const Vocabulary& vocabulary, const PieceTable& pieces) : vocabulary_(vocabulary), pieces_(pieces) {}

  Status encode(std::string_view word, std::vector<TokenId>& out) const override {
    const TokenId id = pieces_.find(word);
    bool after_unknown = false;
    if (id == kNoToken) return append_unknown(vocabulary_, pieces_, word, after_unknown, out);
    out.push_back(id);
    return {};
  }

 private:
  const Vocabulary& vocabulary_;
  const PieceTable& pieces_;
};

}  // namespace

Result<std::unique_ptr<Encoder>> make_word_piece(const Vocabulary& vocabulary, const PieceTable& pieces) {
  if (vocabulary.unknown == kNoToken) return corrupt("The WordPiece vocabulary names no unknown token.");
  return std::unique_ptr<Encoder>(std::make_unique<WordPiece>(vocabulary, pieces));
}

std::unique_ptr<Encoder> make_word_level(const Vocabulary& vocabulary, const PieceTable& pieces) {
  return std::make_unique<WordLevel>(vocabulary, pieces);
}

}  // namespace graft::text

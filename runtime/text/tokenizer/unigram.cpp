// Unigram: of all ways to cut a text into pieces, the one with the best sum of scores (Viterbi).
#include <algorithm>
#include <limits>

#include "runtime/text/tokenizer/encoder.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text {
namespace {

constexpr std::size_t kLongestPiece = 512;  // bytes; bounds the work for each character of a text
constexpr float kUnknownPenalty = 10;       // below the worst piece, as SentencePiece has it

class Unigram final : public Encoder {
 public:
  Unigram(const Vocabulary& vocabulary, const PieceTable& pieces) : vocabulary_(vocabulary), pieces_(pieces) {}

  Status measure() {
    float worst = std::numeric_limits<float>::max();
    for (std::size_t i = 0; i < vocabulary_.tokens.size(); ++i) {
      const Token& token = vocabulary_.tokens[i];
      if (token.kind != TokenKind::normal) continue;
      if (token.text.size() > kLongestPiece) {
        return unsupported("Token ", i, " of the unigram vocabulary has ", token.text.size(),
                           " bytes; a piece may have at most ", kLongestPiece, ".");
      }
      worst = std::min(worst, token.score);
      if (token.text.size() >= has_size_.size()) has_size_.resize(token.text.size() + 1);
      has_size_[token.text.size()] = true;
    }
    unknown_score_ = (worst == std::numeric_limits<float>::max() ? 0 : worst) - kUnknownPenalty;
    return {};
  }

  Status encode(std::string_view text, std::vector<TokenId>& out) const override {
    std::vector<Step> best(text.size() + 1);
    best[0].score = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t character = first_code_point(text.substr(at)).size;
      extend(text, at, character, best);
      at += character;
    }
    std::vector<std::pair<std::size_t, std::size_t>> path;  // ends and begins, last first
    for (std::size_t end = text.size(); end > 0; end = best[end].begin) path.emplace_back(best[end].begin, end);
    bool after_unknown = false;
    for (auto step = path.rbegin(); step != path.rend(); ++step) {
      const auto [begin, end] = *step;
      if (best[end].id != kNoToken) {
        out.push_back(best[end].id);
        after_unknown = false;
        continue;
      }
      GRAFT_TRY(append_unknown(vocabulary_, pieces_, text.substr(begin, end - begin), after_unknown, out));
    }
    return {};
  }

 private:
  struct Step {
    double score = -std::numeric_limits<double>::infinity();
    std::size_t begin = 0;
    TokenId id = kNoToken;
  };

  /// Tries every piece that begins at `at`, and the character there as unknown.
  void extend(std::string_view text, std::size_t at, std::size_t character, std::vector<Step>& best) const {
    const double base = best[at].score;
    const auto offer = [&](std::size_t end, double score, TokenId id) {
      if (score > best[end].score) best[end] = {score, at, id};
    };
    bool single = false;
    const std::size_t longest = std::min(text.size() - at, has_size_.empty() ? 0 : has_size_.size() - 1);
    for (std::size_t size = 1; size <= longest; ++size) {
      if (!has_size_[size]) continue;
      const TokenId id = pieces_.find(text.substr(at, size));
      if (id == kNoToken) continue;
      single = single || size == character;
      offer(at + size, base + static_cast<double>(vocabulary_.tokens[static_cast<std::size_t>(id)].score), id);
    }
    if (!single) offer(at + character, base + static_cast<double>(unknown_score_), kNoToken);
  }

  const Vocabulary& vocabulary_;
  const PieceTable& pieces_;
  std::vector<bool> has_size_;  ///< whether any piece has as many bytes
  float unknown_score_ = 0;
};

}  // namespace

Result<std::unique_ptr<Encoder>> make_unigram(const Vocabulary& vocabulary, const PieceTable& pieces) {
  auto unigram = std::make_unique<Unigram>(vocabulary, pieces);
  GRAFT_TRY(unigram->measure());
  return std::unique_ptr<Encoder>(std::move(unigram));
}

}  // namespace graft::text

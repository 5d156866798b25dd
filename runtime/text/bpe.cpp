// Byte pair encoding: neighbours merge, the best pair first, the leftmost of equals first.
#include <queue>
#include <unordered_map>

#include "runtime/text/encoder.h"
#include "runtime/text/split.h"
#include "runtime/text/unicode.h"

namespace graft::text {
namespace {

/// A stretch of the text that is one token or, with id kNoToken, one character without a token. Linked, as merging
/// removes symbols from the middle.
struct Symbol {
  std::uint32_t begin;
  std::uint32_t size;  ///< 0 once it has been merged into its left neighbour
  std::int32_t previous;
  std::int32_t next;
  TokenId id;
};

struct Join {
  double cost;
  TokenId id;
};

struct Candidate {
  Join join;
  std::int32_t left;
  std::int32_t right;
  std::uint32_t left_size;  ///< sizes when this was found: a candidate is stale once one has changed
  std::uint32_t right_size;

  bool operator<(const Candidate& other) const {  // std::priority_queue gives the greatest first
    return join.cost != other.join.cost ? join.cost > other.join.cost : left > other.left;
  }
};

std::uint64_t pair_key(TokenId left, TokenId right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

class Bpe final : public Encoder {
 public:
  Bpe(const Vocabulary& vocabulary, const PieceTable& pieces) : vocabulary_(vocabulary), pieces_(pieces) {}

  Status index_merges();
  Status encode(std::string_view text, std::vector<TokenId>& out) const override;

 private:
  bool over_bytes() const { return vocabulary_.algorithm == Algorithm::byte_bpe; }
  bool join_of(std::string_view text, const Symbol& left, const Symbol& right, Join& join) const;
  std::vector<Symbol> symbols_of(std::string_view text) const;
  void merge_all(std::string_view text, std::vector<Symbol>& symbols) const;
  Status encode_span(std::string_view text, std::vector<TokenId>& out) const;

  const Vocabulary& vocabulary_;
  const PieceTable& pieces_;
  std::unordered_map<std::uint64_t, Join> merges_;
};

Status Bpe::index_merges() {
  merges_.reserve(vocabulary_.merges.size());
  for (std::size_t rank = 0; rank < vocabulary_.merges.size(); ++rank) {
    const auto [left, right] = vocabulary_.merges[rank];
    const std::string joined = cat(pieces_.piece(left), pieces_.piece(right));
    const TokenId id = pieces_.find(joined);
    if (id == kNoToken) {
      return corrupt("Merge ", rank, " of the vocabulary joins tokens ", left, " and ", right,
                     ", but no token is spelled as both together.");
    }
    merges_.emplace(pair_key(left, right), Join{static_cast<double>(rank), id});
  }
  return {};
}

bool Bpe::join_of(std::string_view text, const Symbol& left, const Symbol& right, Join& join) const {
  if (vocabulary_.algorithm == Algorithm::scored_bpe) {
    const TokenId id = pieces_.find(text.substr(left.begin, left.size + right.size));
    if (id == kNoToken) return false;
    join = {-static_cast<double>(vocabulary_.tokens[static_cast<std::size_t>(id)].score), id};
    return true;
  }
  if (left.id == kNoToken || right.id == kNoToken) return false;
  const auto found = merges_.find(pair_key(left.id, right.id));
  if (found == merges_.end()) return false;
  join = found->second;
  return true;
}

std::vector<Symbol> Bpe::symbols_of(std::string_view text) const {
  std::vector<Symbol> symbols;
  symbols.reserve(text.size());
  for (std::uint32_t at = 0; at < text.size();) {
    const std::uint32_t size = over_bytes() ? 1 : first_code_point(text.substr(at)).size;
    const auto index = static_cast<std::int32_t>(symbols.size());
    const TokenId id =
        over_bytes() ? pieces_.byte_token(static_cast<unsigned char>(text[at])) : pieces_.find(text.substr(at, size));
    symbols.push_back({at, size, index - 1, index + 1, id});
    at += size;
  }
  if (!symbols.empty()) symbols.back().next = -1;
  return symbols;
}

void Bpe::merge_all(std::string_view text, std::vector<Symbol>& symbols) const {
  const auto at = [&](std::int32_t index) -> Symbol& { return symbols[static_cast<std::size_t>(index)]; };
  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::int32_t left, std::int32_t right) {
    if (left < 0 || right < 0) return;
    Join join{};
    if (join_of(text, at(left), at(right), join)) queue.push({join, left, right, at(left).size, at(right).size});
  };
  for (std::int32_t i = 1; i < static_cast<std::int32_t>(symbols.size()); ++i) consider(i - 1, i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = at(best.left);
    Symbol& right = at(best.right);
    if (left.size != best.left_size || right.size != best.right_size) continue;
    left.size += right.size;
    left.id = best.join.id;
    left.next = right.next;
    right.size = 0;
    if (left.next >= 0) at(left.next).previous = best.left;
    consider(left.previous, best.left);
    consider(best.left, left.next);
  }
}

Status Bpe::encode_span(std::string_view text, std::vector<TokenId>& out) const {
  if (vocabulary_.ignore_merges) {
    if (const TokenId id = pieces_.find(text); id != kNoToken) {
      out.push_back(id);
      return {};
    }
  }
  std::vector<Symbol> symbols = symbols_of(text);
  merge_all(text, symbols);
  bool after_unknown = false;
  for (const Symbol& symbol : symbols) {
    if (symbol.size == 0) continue;
    if (symbol.id != kNoToken) {
      out.push_back(symbol.id);
      after_unknown = false;
      continue;
    }
    GRAFT_TRY(append_unknown(vocabulary_, pieces_, text.substr(symbol.begin, symbol.size), after_unknown, out));
  }
  return {};
}

Status Bpe::encode(std::string_view text, std::vector<TokenId>& out) const {
  if (!over_bytes()) return encode_span(text, out);
  const std::vector<CodePoint> points = code_points(text);
  std::size_t begin = 0;
  for (const std::uint32_t last : split_text(points, vocabulary_.splits)) {
    const std::size_t end = points[last - 1].begin + points[last - 1].size;
    GRAFT_TRY(encode_span(text.substr(begin, end - begin), out));
    begin = end;
  }
  return {};
}

}  // namespace

Status append_unknown(const Vocabulary& vocabulary, const PieceTable& pieces, std::string_view text,
                      bool& after_unknown, std::vector<TokenId>& out) {
  if (vocabulary.byte_fallback) {
    const std::size_t mark = out.size();
    for (const char byte : text) out.push_back(pieces.byte_token(static_cast<unsigned char>(byte)));
    bool complete = true;
    for (std::size_t i = mark; i < out.size(); ++i) complete = complete && out[i] != kNoToken;
    if (complete) {
      after_unknown = false;
      return {};
    }
    out.resize(mark);
  }
  if (vocabulary.unknown == kNoToken) {
    return invalid("The vocabulary has no token for \"", valid_utf8(text), "\", nor an unknown token.");
  }
  if (!after_unknown || !vocabulary.fuse_unknown) out.push_back(vocabulary.unknown);
  after_unknown = true;
  return {};
}

Result<std::unique_ptr<Encoder>> make_bpe(const Vocabulary& vocabulary, const PieceTable& pieces) {
  auto bpe = std::make_unique<Bpe>(vocabulary, pieces);
  GRAFT_TRY(bpe->index_merges());
  return std::unique_ptr<Encoder>(std::move(bpe));
}

}  // namespace graft::text

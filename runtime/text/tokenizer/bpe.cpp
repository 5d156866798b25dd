// Byte pair encoding: neighbours merge, the best pair first, the leftmost of equals first.
#include <queue>
#include <unordered_map>

#include "runtime/text/tokenizer/encoder.h"
#include "runtime/text/unicode/unicode.h"

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
  std::uint32_t size;  ///< of both when this was found, for pairs by score

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
  TokenId find_symbol(std::string_view text, std::uint32_t at, std::uint32_t size) const;
  Result<std::vector<Symbol>> symbols_of(std::string_view text) const;
  Status append_unknown_symbol(std::string_view text, Symbol symbol, std::vector<Symbol>& out) const;
  void merge_all(std::string_view text, std::vector<Symbol>& symbols) const;

  const Vocabulary& vocabulary_;
  const PieceTable& pieces_;
  std::unordered_map<std::uint64_t, Join> merges_;
};

Status Bpe::index_merges() {
  merges_.reserve(vocabulary_.merges.size());
  for (std::size_t rank = 0; rank < vocabulary_.merges.size(); ++rank) {
    const auto [left, right] = vocabulary_.merges[rank];
    std::string_view rest = pieces_.piece(right);
    if (rest.starts_with(vocabulary_.inner_prefix)) rest.remove_prefix(vocabulary_.inner_prefix.size());
    const std::string joined = cat(pieces_.piece(left), rest);
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

/// The token of one character, with the affixes that its place in the span asks for.
TokenId Bpe::find_symbol(std::string_view text, std::uint32_t at, std::uint32_t size) const {
  const std::string_view inner = at == 0 ? std::string_view() : vocabulary_.inner_prefix;
  const std::string_view end = at + size < text.size() ? std::string_view() : vocabulary_.end_suffix;
  if (inner.empty() && end.empty()) return pieces_.find(text.substr(at, size));
  return pieces_.find(cat(inner, text.substr(at, size), end));
}

Result<std::vector<Symbol>> Bpe::symbols_of(std::string_view text) const {
  std::vector<Symbol> symbols;
  symbols.reserve(text.size());
  Symbol unknown{};  // not yet among the symbols, as neighbours may join it; size 0 where there is none
  const auto flush = [&] {
    if (unknown.size != 0) symbols.push_back(unknown);
    unknown.size = 0;
  };
  for (std::uint32_t at = 0; at < text.size();) {
    const std::uint32_t size = over_bytes() ? 1 : first_code_point(text.substr(at)).size;
    const TokenId id =
        over_bytes() ? pieces_.byte_token(static_cast<unsigned char>(text[at])) : find_symbol(text, at, size);
    const Symbol symbol{at, size, 0, 0, id};
    at += size;
    // By scores a pair may join to a token although its parts are none.
    if (id != kNoToken || vocabulary_.algorithm == Algorithm::scored_bpe) {
      flush();
      symbols.push_back(symbol);
      continue;
    }
    const std::size_t before = symbols.size();
    GRAFT_TRY(append_unknown_symbol(text, symbol, symbols));
    if (symbols.size() == before || symbols.back().id != vocabulary_.unknown) continue;
    symbols.pop_back();
    if (unknown.size != 0 && vocabulary_.fuse_unknown) {
      unknown.size += size;
    } else {
      flush();
      unknown = {symbol.begin, size, 0, 0, vocabulary_.unknown};
    }
  }
  flush();
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    symbols[i].previous = static_cast<std::int32_t>(i) - 1;
    symbols[i].next = i + 1 < symbols.size() ? static_cast<std::int32_t>(i) + 1 : -1;
  }
  return symbols;
}

/// The bytes of a character as symbols of their own, or the unknown token.
Status Bpe::append_unknown_symbol(std::string_view text, Symbol symbol, std::vector<Symbol>& out) const {
  std::vector<TokenId> ids;
  bool after_unknown = false;
  GRAFT_TRY(append_unknown(vocabulary_, pieces_, text.substr(symbol.begin, symbol.size), after_unknown, ids));
  const std::uint32_t size = symbol.size / static_cast<std::uint32_t>(ids.size());
  for (std::uint32_t i = 0; i < ids.size(); ++i) out.push_back({symbol.begin + i * size, size, 0, 0, ids[i]});
  return {};
}

void Bpe::merge_all(std::string_view text, std::vector<Symbol>& symbols) const {
  const auto at = [&](std::int32_t index) -> Symbol& { return symbols[static_cast<std::size_t>(index)]; };
  const bool by_score = vocabulary_.algorithm == Algorithm::scored_bpe;
  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::int32_t left) {
    if (left < 0 || at(left).next < 0) return;
    const Symbol& right = at(at(left).next);
    Join join{};
    if (join_of(text, at(left), right, join)) queue.push({join, left, at(left).size + right.size});
  };
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(symbols.size()); ++i) consider(i);
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = at(best.left);
    if (left.size == 0 || left.next < 0) continue;
    Symbol& right = at(left.next);
    // The pair may have changed since. By rank it still counts where it makes the same token.
    Join now{};
    if (by_score ? left.size + right.size != best.size : !join_of(text, left, right, now) || now.id != best.join.id) {
      continue;
    }
    left.size += right.size;
    left.id = best.join.id;
    left.next = right.next;
    right.size = 0;
    if (left.next >= 0) at(left.next).previous = best.left;
    consider(left.previous);
    consider(best.left);
  }
}

Status Bpe::encode(std::string_view text, std::vector<TokenId>& out) const {
  if (vocabulary_.ignore_merges) {
    if (const TokenId id = pieces_.find(text); id != kNoToken) {
      out.push_back(id);
      return {};
    }
  }
  GRAFT_TRY_ASSIGN(std::vector<Symbol> symbols, symbols_of(text));
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

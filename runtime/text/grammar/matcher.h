// Which tokens may come next, where a text has to follow a grammar.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/text/grammar/grammar.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace graft::text {

/// The tokens of a vocabulary that stand for text, by their bytes. Views the tokenizer, which must outlive it.
class TokenTable {
 public:
  explicit TokenTable(const Tokenizer& tokenizer);

  struct Entry {
    std::string_view bytes;
    TokenId token = kNoToken;
    std::uint32_t shared = 0;  ///< bytes that it begins with as the entry before does
  };
  std::span<const Entry> entries() const { return entries_; }
  std::size_t size() const { return size_; }  ///< of the vocabulary
  std::string_view bytes_of(TokenId token) const;

 private:
  const Tokenizer* tokenizer_;
  std::vector<Entry> entries_;  ///< in the order of their bytes
  std::size_t size_;
};

/// Follows one text after another through a grammar. States (sets of stacks), the steps between them and the tokens
/// that each allows are kept as they are met: most tokens cost a look into a table.
class GrammarMatcher {
 public:
  /// Both must outlive it.
  GrammarMatcher(const Grammar& grammar, const TokenTable& tokens);

  /// Begins a text. unsupported: a grammar that takes too much time or memory, as for the two below.
  Status restart();
  /// A bit for each token of the vocabulary; valid until the next call.
  Result<std::span<const std::uint64_t>> allowed();
  /// invalid_argument: a token that is not allowed; the state stays as it was.
  Status accept(TokenId token);
  /// Whether the text may end here, and whether nothing else may come.
  bool may_end() const { return states_[state_].may_end; }
  bool must_end() const { return may_end() && states_[state_].tops.empty(); }

 private:
  /// What is left to be matched: from `place` on, and then what the node `below` says; node 0: nothing.
  struct Node {
    std::uint32_t place = 0;
    std::uint32_t below = 0;
  };
  static constexpr std::int32_t kUnknown = -1;
  static constexpr std::int32_t kDead = -2;
  struct State {
    std::vector<std::uint32_t> tops;  ///< nodes that begin with bytes, in rising order
    bool may_end = false;
    std::unique_ptr<std::int32_t[]> next = {};  ///< by byte
    std::vector<std::uint64_t> allowed = {};    ///< empty: not asked yet
  };

  Result<std::uint32_t> node(std::uint32_t place, std::uint32_t below);
  Status open(std::uint32_t place, std::uint32_t below, State& into);
  Result<std::int32_t> keep(State state);
  Result<std::int32_t> step(std::int32_t state, std::uint8_t byte);
  Status spend(std::uint64_t steps);
  Status forget();

  const Grammar& grammar_;
  const TokenTable& tokens_;
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, std::uint32_t> known_nodes_;
  std::vector<State> states_;
  std::unordered_multimap<std::uint64_t, std::int32_t> known_states_;  ///< by hash
  std::size_t held_tops_ = 0;
  std::size_t held_masks_ = 0;
  std::int32_t state_ = 0;
  std::uint64_t steps_ = 0;  ///< of this call
  std::vector<Node> open_;
  std::vector<std::int32_t> path_;
};

}  // namespace graft::text

// What a text may be: rules in the language of llama.cpp's grammars (GBNF), as a pushdown machine over bytes.
//
// A grammar comes with an app's input and is hostile: its size, its nesting and what matching takes are bounded.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"

namespace graft::text {

/// A set of bytes.
using ByteSet = std::array<std::uint64_t, 4>;
inline bool holds(const ByteSet& set, std::uint8_t byte) { return (set[byte / 64] >> (byte % 64) & 1) != 0; }

class Grammar {
 public:
  enum class Kind : std::uint8_t {
    bytes,  ///< a byte of a set
    rule,   ///< what a rule stands for
    end     ///< of an alternative
  };
  struct Symbol {
    Kind kind = Kind::end;
    std::uint32_t index = 0;  ///< into sets(), or of a rule
  };

  /// The grammar that begins with the rule "root": `name ::= ...` with "text", [a-z], [^a-z], ., ( ), |, *, +, ?, {m},
  /// {m,}, {m,n}, {,n} and comments from #.
  /// invalid_argument: with the line, what is no grammar, names no rule, or has a rule that begins with itself;
  /// unsupported: a grammar that is too large or nested too deeply.
  static Result<Grammar> parse(std::string_view text);

  std::uint32_t root() const { return root_; }
  /// Where each alternative of a rule begins in symbols(), each up to its end.
  std::span<const std::uint32_t> alternatives(std::uint32_t rule) const {
    return std::span(alternatives_).subspan(rules_[rule], rules_[rule + 1] - rules_[rule]);
  }
  const Symbol& symbol(std::uint32_t place) const { return symbols_[place]; }
  const ByteSet& set(std::uint32_t index) const { return sets_[index]; }

 private:
  friend class GrammarBuilder;
  std::vector<std::uint32_t> rules_;         ///< where each begins in alternatives_, and the end of all
  std::vector<std::uint32_t> alternatives_;  ///< where each begins in symbols_
  std::vector<Symbol> symbols_;
  std::vector<ByteSet> sets_;
  std::uint32_t root_ = 0;
};

}  // namespace graft::text

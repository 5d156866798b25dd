// Rules while they are read, before they lie side by side in a Grammar.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/text/grammar/grammar.h"

namespace graft::text {

struct CharRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

class GrammarBuilder {
 public:
  using Sequence = std::vector<Grammar::Symbol>;

  /// A rule without alternatives yet.
  Result<std::uint32_t> add_rule();
  Status add_alternative(std::uint32_t rule, Sequence sequence);
  bool has_alternatives(std::uint32_t rule) const { return !rules_[rule].empty(); }

  /// The bytes of one character.
  Sequence text(std::string_view bytes);
  /// One character out of some ranges of code points, or out of all others.
  Result<Sequence> characters(std::vector<CharRange> ranges, bool others);
  /// `item` at least and at most so often; kNoMost: any number.
  static constexpr std::uint32_t kNoMost = UINT32_MAX;
  Result<Sequence> repeated(Sequence item, std::uint32_t least, std::uint32_t most);

  /// The rule that begins with itself, so that it has no first character, if there is one.
  std::optional<std::uint32_t> find_left_recursion() const;
  Grammar finish(std::uint32_t root) &&;

 private:
  Grammar::Symbol bytes(const ByteSet& set);
  Status add_encoded(std::uint32_t first, std::uint32_t last, std::uint32_t rule, ByteSet& single);
  Status count(std::size_t symbols);

  std::vector<std::vector<Sequence>> rules_;
  std::vector<ByteSet> sets_;
  std::map<ByteSet, std::uint32_t> known_sets_;
  std::map<std::vector<std::pair<std::uint32_t, std::uint32_t>>, Sequence> known_characters_;
  std::size_t symbols_ = 0;
};

}  // namespace graft::text

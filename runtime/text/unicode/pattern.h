// The regular expressions of tokenizer files, on code points. A pattern comes from a file and is hostile: its size, the
// steps that a search takes and what it remembers are bounded.
//
// The dialect is Oniguruma's (Ruby's), which Hugging Face's library uses, without captures and back references:
// alternatives, groups, (?i:...), classes with \p{..}, \s, \w, \d, \h and POSIX names, . ^ $ \A \z \b \B, quantifiers
// greedy, lazy and possessive, atomic groups, lookahead, and lookbehind of one character.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "platform/base/status.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text {

/// A class of code points.
struct CharSet {
  struct Range {
    char32_t first;
    char32_t last;
  };
  bool negated = false;
  std::vector<Range> ranges;
  std::uint32_t categories = 0;                        ///< bit i: Category i
  std::vector<std::pair<std::uint8_t, bool>> scripts;  ///< a script, and whether all others are meant
  bool space = false, no_space = false, word = false, no_word = false;
  std::uint64_t ascii[2] = {};  ///< holds() of the first 128 code points

  bool holds(char32_t value) const;
  /// To be called once all members above are set.
  void index_ascii();

 private:
  bool holds_slowly(char32_t value) const;
};

struct PatternMatch {
  std::uint32_t begin;  ///< indices into the points that were searched
  std::uint32_t end;
};

class Pattern {
 public:
  /// unsupported: what the pattern has that graft does not, or a pattern that is too large; corrupt: no pattern at all.
  static Result<Pattern> parse(std::string_view regex);
  /// Matches exactly this text.
  static Pattern literal(std::string_view text);

  /// All matches from left to right, none overlapping. Nothing outside of `points` is seen.
  /// invalid_argument: the search takes more steps than any sensible pattern needs.
  Status find_all(std::span<const CodePoint> points, std::vector<PatternMatch>& out) const;

 private:
  friend class PatternParser;
  friend class PatternSearch;

  enum class Op : std::uint8_t {
    one,       ///< a character of set `set`
    run,       ///< `least` to `most` of them
    either,    ///< goes on at `to`, and at `other` where that fails
    jump,      ///< to `to`
    enter,     ///< notes where a round of a loop begins, in slot `set`
    progress,  ///< fails where that round took nothing
    look,      ///< what follows, up to `to`, matches here; not, where `inverse`; just before here, where `behind`
    atomic,    ///< what follows, up to `to`, matches, and is not tried otherwise
    at,        ///< an assertion: see Place
    done       ///< the end of the program, or of a `look` or `atomic`
  };
  enum class Place : std::uint8_t { line_begin, line_end, begin, end, last_line_end, word_edge, no_word_edge };
  enum class Greed : std::uint8_t { most, least, possessive };

  struct Step {
    Op op;
    Place place = Place::begin;
    Greed greed = Greed::most;
    bool inverse = false;
    bool behind = false;
    std::uint32_t set = 0;
    std::uint32_t to = 0;
    std::uint32_t other = 0;
    std::uint32_t least = 0;
    std::uint32_t most = 0;
  };

  std::vector<Step> steps_;
  std::vector<CharSet> sets_;
  std::uint32_t slots_ = 0;
};

}  // namespace graft::text

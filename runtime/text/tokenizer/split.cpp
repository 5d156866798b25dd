#include "runtime/text/tokenizer/split.h"

namespace graft::text {
namespace {

/// A span of code points that a pattern is matched against: it sees nothing beyond the span.
class Scanner {
 public:
  Scanner(std::span<const CodePoint> points, Split split) : points_(points), split_(split) {}

  std::size_t size() const { return points_.size(); }

  /// Code points that the pattern matches at `at`, which lies within the span; 0 where it does not match.
  std::size_t match(std::size_t at) const {
    switch (split_) {
      case Split::gpt2: return gpt2(at);
      case Split::llama3: return newer(at, 3);
      case Split::qwen2: return newer(at, 1);
      case Split::digit: return is(at, CharClass::number) ? 1 : 0;
      case Split::line_break: return is_line_break(at) ? 1 : 0;
      case Split::spaced_letters: return spaced(at, CharClass::letter);
      case Split::spaced_punctuation: return spaced(at, CharClass::punctuation);
      case Split::cjk: return run(at, [&](std::size_t i) { return is_cjk(points_[i].value); });
    }
    return 0;
  }

 private:
  bool is(std::size_t at, CharClass cls) const { return at < size() && char_class(points_[at].value) == cls; }
  bool is_space(std::size_t at) const { return at < size() && is_white_space(points_[at].value); }
  bool is_line_break(std::size_t at) const {
    return at < size() && (points_[at].value == '\r' || points_[at].value == '\n');
  }
  /// Neither white space, letter nor number.
  bool is_other(std::size_t at) const {
    return at < size() && !is_space(at) && !is(at, CharClass::letter) && !is(at, CharClass::number);
  }
  static bool is_cjk(char32_t v) { return (v >= 0x0800 && v <= 0x9FA5) || (v >= 0xAC00 && v <= 0xD7FF); }

  template <typename Predicate>
  std::size_t run(std::size_t at, Predicate belongs) const {
    std::size_t end = at;
    while (end < size() && belongs(end)) ++end;
    return end - at;
  }
  std::size_t run(std::size_t at, CharClass cls) const {
    return run(at, [&](std::size_t i) { return is(i, cls); });
  }
  std::size_t other_run(std::size_t at) const {
    return run(at, [&](std::size_t i) { return is_other(i); });
  }

  /// \s?\p{..}+
  std::size_t spaced(std::size_t at, CharClass cls) const {
    const std::size_t lead = is_space(at) ? 1 : 0;
    const std::size_t length = run(at + lead, cls);
    return length == 0 ? 0 : lead + length;
  }

  /// 's 't 're 've 'm 'll 'd
  std::size_t contraction(std::size_t at, bool any_case) const {
    if (points_[at].value != '\'') return 0;
    const auto letter = [&](std::size_t i) -> char32_t {
      if (i >= size()) return 0;
      const char32_t v = points_[i].value;
      if (any_case && v == 0x17F) return 's';  // the long s, whose other case is S
      return any_case && v >= 'A' && v <= 'Z' ? v + ('a' - 'A') : v;
    };
    const char32_t first = letter(at + 1);
    const char32_t second = letter(at + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l')) return 3;
    return 0;
  }

  /// \s+(?!\S)|\s+ : a run of white space leaves its last character to the word that follows.
  std::size_t white_space(std::size_t at) const {
    const std::size_t length = run(at, [&](std::size_t i) { return is_space(i); });
    return at + length < size() && length > 1 ? length - 1 : length;
  }

  /// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  std::size_t gpt2(std::size_t at) const {
    if (const std::size_t length = contraction(at, false); length != 0) return length;
    const std::size_t lead = points_[at].value == ' ' ? 1 : 0;
    for (const CharClass cls : {CharClass::letter, CharClass::number}) {
      if (const std::size_t length = run(at + lead, cls); length != 0) return lead + length;
    }
    if (const std::size_t length = other_run(at + lead); length != 0) return lead + length;
    return white_space(at);
  }

  /// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+
  /// |\s+(?!\S)|\s+
  std::size_t newer(std::size_t at, std::size_t digits) const {
    if (const std::size_t length = contraction(at, true); length != 0) return length;
    const bool leads = !is_line_break(at) && !is(at, CharClass::letter) && !is(at, CharClass::number);
    if (const std::size_t length = run(at + (leads ? 1 : 0), CharClass::letter); length != 0) {
      return length + (leads ? 1 : 0);
    }
    if (is(at, CharClass::number)) {
      const std::size_t length = run(at, CharClass::number);
      return length < digits ? length : digits;
    }
    const std::size_t lead = points_[at].value == ' ' ? 1 : 0;
    if (const std::size_t length = other_run(at + lead); length != 0) {
      const std::size_t end = at + lead + length;
      return lead + length + run(end, [&](std::size_t i) { return is_line_break(i); });
    }
    const std::size_t spaces = run(at, [&](std::size_t i) { return is_space(i); });
    for (std::size_t length = spaces; length > 0; --length) {
      if (is_line_break(at + length - 1)) return length;
    }
    return white_space(at);
  }

  std::span<const CodePoint> points_;
  Split split_;
};

}  // namespace

std::vector<std::uint32_t> split_text(std::span<const CodePoint> points, std::span<const Split> splits) {
  std::vector<std::uint32_t> ends;
  if (points.empty()) return ends;
  ends.push_back(static_cast<std::uint32_t>(points.size()));
  for (const Split split : splits) {
    std::vector<std::uint32_t> finer;
    std::uint32_t begin = 0;
    for (const std::uint32_t end : ends) {
      const Scanner scanner(points.subspan(begin, end - begin), split);
      bool between = false;  // an unmatched stretch is open
      for (std::size_t at = 0; at < scanner.size();) {
        const std::size_t length = scanner.match(at);
        if (length == 0) {
          between = true;
          ++at;
          continue;
        }
        if (between) finer.push_back(begin + static_cast<std::uint32_t>(at));
        between = false;
        at += length;
        finer.push_back(begin + static_cast<std::uint32_t>(at));
      }
      if (between) finer.push_back(end);
      begin = end;
    }
    ends = std::move(finer);
  }
  return ends;
}

std::vector<PatternMatch> split_matches(std::span<const CodePoint> points, Split split) {
  std::vector<PatternMatch> out;
  const Scanner scanner(points, split);
  for (std::uint32_t at = 0; at < points.size();) {
    const auto length = static_cast<std::uint32_t>(scanner.match(at));
    if (length != 0) out.push_back({at, at + length});
    at += length == 0 ? 1 : length;
  }
  return out;
}

}  // namespace graft::text

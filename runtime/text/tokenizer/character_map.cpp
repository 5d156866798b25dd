// The layout: bytes of the trie (u32), the trie's units (u32 each, little endian), then strings that end in zero bytes.
// A unit is that of the Darts-clone double array: bits 0-7 label, 8 whether it has a value, 9 whether the offset in
// bits 10-30 is shifted by 8, 31 whether the unit is itself a value.
#include "runtime/text/tokenizer/character_map.h"

#include <cstdint>

#include "runtime/text/unicode/unicode.h"

namespace graft::text {
namespace {

std::uint32_t word_at(std::string_view bytes, std::size_t offset) {
  std::uint32_t out = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    out |= std::uint32_t{static_cast<unsigned char>(bytes[offset + i])} << (8 * i);
  }
  return out;
}

class Trie {
 public:
  explicit Trie(std::string_view map)
      : units_(map.substr(4, word_at(map, 0))), strings_(map.substr(4 + units_.size())) {}

  /// Bytes of the longest key at the start of `text`, or of the `shortest`; 0 for none. Its replacement goes to `out`.
  std::size_t match(std::string_view text, std::string_view& out, bool shortest = false) const {
    std::size_t matched = 0;
    std::uint32_t at = offset_of(unit(0));
    for (std::size_t i = 0; i < text.size(); ++i) {
      const auto label = static_cast<unsigned char>(text[i]);
      at ^= label;
      const std::uint32_t here = unit(at);
      if ((here & (kValueBit | 0xFF)) != label) break;
      at ^= offset_of(here);
      if ((here >> 8 & 1) == 0) continue;
      const std::uint32_t begin = unit(at) & ~kValueBit;
      if (begin >= strings_.size()) break;
      matched = i + 1;
      const std::string_view rest = strings_.substr(begin);
      out = rest.substr(0, rest.find('\0'));
      if (shortest) break;
    }
    return matched;
  }

 private:
  static constexpr std::uint32_t kValueBit = 0x80000000u;

  static std::uint32_t offset_of(std::uint32_t unit) { return unit >> 10 << ((unit & 0x200) >> 6); }
  /// A unit that matches no label where the index lies outside.
  std::uint32_t unit(std::uint32_t index) const {
    return index < units_.size() / 4 ? word_at(units_, std::size_t{index} * 4) : kValueBit;
  }

  std::string_view units_;
  std::string_view strings_;
};

}  // namespace

Status check_character_map(std::string_view map) {
  if (map.empty()) return {};
  if (map.size() < 8) return corrupt("The character map of the tokenizer has ", map.size(), " bytes; it needs 8.");
  const std::uint32_t bytes = word_at(map, 0);
  if (bytes % 4 != 0 || bytes == 0 || bytes > map.size() - 4) {
    return corrupt("The character map of the tokenizer gives its trie ", bytes, " bytes, but ", map.size() - 4,
                   " follow.");
  }
  return {};
}

std::string apply_character_map(std::string_view map, std::string_view text) {
  if (map.empty()) return std::string(text);
  const Trie trie(map);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::string_view replacement;
    if (const std::size_t matched = trie.match(text.substr(at), replacement); matched != 0) {
      out += replacement;
      at += matched;
      continue;
    }
    const std::size_t size = first_code_point(text.substr(at)).size;
    out += text.substr(at, size);
    at += size;
  }
  return out;
}

namespace {

/// Whether a character goes on with the grapheme of the one before it, as far as graphemes of five bytes can tell.
bool extends(char32_t before, char32_t value) {
  if (before == '\r' && value == '\n') return true;
  const CharClass cls = char_class(value);
  const Category last = category(before);
  const bool control = last == Category::cc || last == Category::zl || last == Category::zp ||
                       (last == Category::cf && before != 0x200C && before != 0x200D) || before == kInvalidByte;
  const bool mark = cls == CharClass::mark || cls == CharClass::nonspacing_mark || value == 0x200C || value == 0x200D ||
                    (value >= 0x1F3FB && value <= 0x1F3FF);
  return mark && !control;
}

}  // namespace

std::string apply_to_graphemes(std::string_view map, std::string_view text) {
  if (map.empty()) return std::string(text);
  constexpr std::size_t kWhole = 6;
  const Trie trie(map);
  const std::vector<CodePoint> points = code_points(text);
  std::string out;
  for (std::size_t begin = 0, end = 0; begin < points.size(); begin = end) {
    for (end = begin + 1; end < points.size() && extends(points[end - 1].value, points[end].value);) ++end;
    const std::size_t last = points[end - 1].begin + points[end - 1].size;
    const std::string_view grapheme = text.substr(points[begin].begin, last - points[begin].begin);
    std::string_view replacement;
    if (grapheme.size() < kWhole && trie.match(grapheme, replacement, true) != 0) {
      out += replacement;
      continue;
    }
    for (std::size_t i = begin; i < end; ++i) {
      const std::string_view one = text.substr(points[i].begin, points[i].size);
      out += trie.match(one, replacement, true) != 0 ? replacement : one;
    }
  }
  return out;
}

}  // namespace graft::text

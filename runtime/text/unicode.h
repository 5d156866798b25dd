// UTF-8 and the little of Unicode that tokenizers need: classes, lower case, canonical normal forms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace graft::text {

enum class CharClass : std::uint8_t {
  other = 0,
  letter = 1,           ///< \p{L}
  nonspacing_mark = 2,  ///< \p{Mn}
  mark = 3,             ///< the rest of \p{M}
  number = 4,           ///< \p{N}
  punctuation = 5,      ///< \p{P}
  symbol = 6,           ///< \p{S}
  separator = 7,        ///< \p{Z}
};

/// The value that a byte gets which is no part of valid UTF-8: above all code points, of class `other`.
inline constexpr char32_t kInvalidByte = 0x110000;

/// A code point and where its bytes lie in the text.
struct CodePoint {
  char32_t value = 0;
  std::uint32_t begin = 0;
  std::uint32_t size = 0;
};

/// All code points of `text` (shorter than 4 GiB). A byte that is not valid UTF-8 becomes a kInvalidByte of one byte,
/// so that the spans always cover the text.
std::vector<CodePoint> code_points(std::string_view text);

/// The code point at the start of `text` (not empty), with begin 0.
CodePoint first_code_point(std::string_view text);

void append_utf8(std::string& out, char32_t value);

/// Bytes at the end of `text` that may be the beginning of a code point still to come: 0 to 3.
std::size_t incomplete_tail(std::string_view text);

/// `text` with every byte that is not valid UTF-8 replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

CharClass char_class(char32_t value);
/// The property White_Space, as \s in a Unicode regular expression.
bool is_white_space(char32_t value);
/// The simple lower case form; `value` itself where there is none.
char32_t to_lower(char32_t value);

/// Normal form D: canonical decomposition in canonical order.
std::u32string normal_form_d(std::u32string_view text);
/// Normal form C: D, then composed. Invalid bytes of `text` stay as they are.
std::string normal_form_c(std::string_view text);

}  // namespace graft::text

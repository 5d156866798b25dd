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

/// General categories, in the order of the generated table.
enum class Category : std::uint8_t {
  cn,
  cc,
  cf,
  co,
  cs,
  lu,
  ll,
  lt,
  lm,
  lo,
  mn,
  mc,
  me,
  nd,
  nl,
  no,
  pc,
  pd,
  ps,
  pe,
  pi,
  pf,
  po,
  sm,
  sc,
  sk,
  so,
  zs,
  zl,
  zp
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

Category category(char32_t value);
CharClass char_class(char32_t value);
/// Its script as a number: 0 where it has none.
std::uint8_t script(char32_t value);
/// The number of a script by name in any case, as in "Han"; 0 where there is none.
std::uint8_t script_number(std::string_view name);
/// \w: letters, marks, decimal digits, connecting punctuation, joiners and whatever else is alphabetic.
bool is_word(char32_t value);
/// \p{P} of Unicode 8, and all printable ASCII that is neither letter, digit nor space.
bool is_punctuation(char32_t value);
bool is_ideograph(char32_t value);
/// Whether Unicode 8 (9) had the character: steps that an old library defines know no later ones.
bool is_in_unicode_8(char32_t value);
bool is_in_unicode_9(char32_t value);
/// The property White_Space, as \s in a Unicode regular expression.
bool is_white_space(char32_t value);
/// The simple lower case form; `value` itself where there is none.
char32_t to_lower(char32_t value);

/// Normal form D: canonical decomposition in canonical order. KD where `compatible`.
std::u32string normal_form_d(std::u32string_view text, bool compatible = false);
/// Normal form C: D, then composed. Invalid bytes of `text` stay as they are.
std::string normal_form_c(std::string_view text);
enum class NormalForm : std::uint8_t { c, d, kc, kd };
std::string normal_form(NormalForm form, std::string_view text);

}  // namespace graft::text

#include "runtime/text/tokenizer/text_steps.h"

#include "runtime/text/tokenizer/byte_alphabet.h"
#include "runtime/text/unicode/unicode.h"

namespace graft::text {
namespace {

constexpr char32_t kGone = 0x110001;  // no code point, and no invalid byte

/// U+2B820 to U+2B91F are no ideographs to BERT's normalizer.
bool is_bert_ideograph(char32_t v) { return is_ideograph(v) && !(v >= 0x2B820 && v < 0x2B920); }

char32_t nmt(char32_t v) {
  if ((v >= 1 && v <= 8) || v == 0xB || (v >= 0xE && v <= 0x1F) || v == 0x7F || v == 0x8F || v == 0x9F) return kGone;
  const bool space = v == '\t' || v == '\n' || v == '\f' || v == '\r' || v == 0x1680 || (v >= 0x200B && v <= 0x200F) ||
                     v == 0x2028 || v == 0x2029 || v == 0x2581 || v == 0xFEFF || v == 0xFFFD;
  return space ? ' ' : v;
}

char32_t cleaned(char32_t v) {
  if (v == 0 || v == 0xFFFD) return kGone;
  if (is_white_space(v)) return ' ';
  const bool is_other = char_class(v) == CharClass::other && category(v) != Category::cn;
  return is_other && is_in_unicode_8(v) ? kGone : v;
}

}  // namespace

std::string by_character(StepKind kind, std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const CodePoint& point : code_points(text)) {
    char32_t v = point.value;
    if (v == kInvalidByte) {
      out += text[point.begin];
      continue;
    }
    switch (kind) {
      case StepKind::lower_case:
        v = to_lower(v);
        if (point.value == 0x130) {  // the one character whose lower case is two
          out += 'i';
          v = 0x307;
        }
        break;
      case StepKind::drop_marks:
        if ((char_class(v) == CharClass::mark || char_class(v) == CharClass::nonspacing_mark) && is_in_unicode_9(v))
          v = kGone;
        break;
      case StepKind::drop_nonspacing:
        if (char_class(v) == CharClass::nonspacing_mark && is_in_unicode_8(v)) v = kGone;
        break;
      case StepKind::clean: v = cleaned(v); break;
      case StepKind::nmt: v = nmt(v); break;
      default: break;
    }
    if (v == kGone) continue;
    const bool apart = kind == StepKind::space_ideographs && is_bert_ideograph(v);
    if (apart) out += ' ';
    append_utf8(out, v);
    if (apart) out += ' ';
  }
  return out;
}

std::string stripped(std::string_view text, bool left, bool right) {
  std::size_t begin = text.size(), end = 0;
  for (const CodePoint& point : code_points(text)) {
    if (is_white_space(point.value)) continue;
    begin = std::min<std::size_t>(begin, point.begin);
    end = point.begin + point.size;
  }
  if (begin == text.size()) return left || right ? std::string() : std::string(text);
  if (!left) begin = 0;
  if (!right) end = text.size();
  return std::string(text.substr(begin, end - begin));
}

std::string collapsed_spaces(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c != ' ' || (!out.empty() && out.back() != ' ')) out += c;
  }
  if (!out.empty() && out.back() == ' ') out.pop_back();
  return out;
}

std::string in_byte_alphabet(std::string_view text) {
  std::string out;
  out.reserve(text.size() * 2);
  for (const char c : text) append_utf8(out, byte_character(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace graft::text

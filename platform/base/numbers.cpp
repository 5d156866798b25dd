#include "platform/base/numbers.h"

#include <locale.h>
#include <stdlib.h>

#include <cctype>
#include <cmath>
#include <string>

namespace graft {
namespace {

// The locale "C": an app may have set another. Null: there is no memory for it.
#if defined(_WIN32)
using Locale = _locale_t;
Locale plain_locale() { return _create_locale(LC_ALL, "C"); }
double to_double(const char* text, char** end, Locale locale) { return _strtod_l(text, end, locale); }
#else
using Locale = locale_t;
Locale plain_locale() { return newlocale(LC_ALL_MASK, "C", nullptr); }
double to_double(const char* text, char** end, Locale locale) { return strtod_l(text, end, locale); }
#endif

bool read(std::string_view text, [[maybe_unused]] bool hexadecimal, double& number) {
#ifdef __cpp_lib_to_chars
  const auto form = hexadecimal ? std::chars_format::hex : std::chars_format::general;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number, form);
  return failed == std::errc() && end == text.data() + text.size();
#else
  return whole_number_by_strtod(text, hexadecimal, number);
#endif
}

}  // namespace

bool whole_number(std::string_view text, double& number) { return read(text, false, number); }

bool whole_hexadecimal(std::string_view digits, double& number) { return read(digits, true, number); }

bool whole_number_by_strtod(std::string_view text, bool hexadecimal, double& number) {
  static const Locale plain = plain_locale();
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  // What strtod takes beyond from_chars: spaces, a plus, a second sign, "0x".
  if (plain == nullptr || digits.empty()) return false;
  const auto first = static_cast<unsigned char>(digits.front());
  if (std::isspace(first) != 0 || first == '+' || first == '-') return false;
  if (digits.size() > 1 && first == '0' && (digits[1] == 'x' || digits[1] == 'X')) return false;
  std::string whole(text);
  const bool word = first == 'i' || first == 'I' || first == 'n' || first == 'N';  // inf, nan
  if (hexadecimal && !word) whole.insert(text.size() - digits.size(), "0x");
  char* end = nullptr;
  const double read = to_double(whole.c_str(), &end, plain);
  if (end != whole.c_str() + whole.size()) return false;
  const std::string_view mantissa = digits.substr(0, digits.find_first_of(hexadecimal ? "pP" : "eE"));
  const bool zero = mantissa.find_first_not_of("0.") == std::string_view::npos;
  if (!word && (std::isinf(read) || (read == 0 && !zero))) return false;  // beyond the type
  number = read;
  return true;
}

}  // namespace graft

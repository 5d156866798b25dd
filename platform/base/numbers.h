// Numbers in text, whatever the C++ library knows and the app's locale says.
#pragma once

#include <charconv>
#include <string_view>

namespace graft {

/// Whether all of `text` is a number, as std::from_chars reads it: no space, no plus, a point as decimal mark; not a
/// number beyond what the type holds.
template <typename Integer>
bool whole_number(std::string_view text, Integer& number) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc() && end == text.data() + text.size();
}
bool whole_number(std::string_view text, double& number);
/// The same for hexadecimal digits, without "0x", and a power of two: "1.8p3".
bool whole_hexadecimal(std::string_view digits, double& number);

/// What both do where the library's from_chars reads integers alone (libc++ before 20).
bool whole_number_by_strtod(std::string_view text, bool hexadecimal, double& number);

}  // namespace graft

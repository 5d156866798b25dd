#include "platform/base/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdarg>

namespace graft {
namespace {

/// What std::to_chars writes of `number`, behind what is there.
template <typename Number, typename... How>
void append_number(std::string& out, Number number, How... how) {
  char digits[32];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, number, how...).ptr);
}

/// As a stream does: in hexadecimal, null as a plain zero.
void append_address(std::string& out, const void* address) {
  if (address != nullptr) out += "0x";
  append_number(out, reinterpret_cast<std::uintptr_t>(address), 16);
}

}  // namespace

namespace detail {

// Not by a stream: the library would import its functions, and it groups digits where the app's locale says so.

std::string cat_list(std::uint64_t kinds, std::va_list parts) {
  std::string out;
  for (; kinds != 0; kinds >>= 4) {
    switch (static_cast<Part>(kinds & 15)) {
      case Part::none: break;
      case Part::literal: out += va_arg(parts, const char*); break;
      case Part::string: out += *va_arg(parts, const std::string*); break;
      case Part::view: out += *va_arg(parts, const std::string_view*); break;
      case Part::character: out += static_cast<char>(va_arg(parts, int)); break;
      case Part::int32: append_number(out, std::int64_t{va_arg(parts, int)}); break;
      case Part::uint32: append_number(out, std::uint64_t{va_arg(parts, unsigned)}); break;
      case Part::int64: append_number(out, va_arg(parts, std::int64_t)); break;
      case Part::uint64: append_number(out, va_arg(parts, std::uint64_t)); break;
      case Part::real: append_number(out, va_arg(parts, double), std::chars_format::general, 6); break;
      case Part::address: append_address(out, va_arg(parts, const void*)); break;
    }
  }
  return out;
}

std::string cat_parts(std::uint64_t kinds, ...) {  // NOLINT(cert-dcl50-cpp)
  std::va_list parts;
  va_start(parts, kinds);
  std::string text = cat_list(kinds, parts);
  va_end(parts);
  return text;
}

}  // namespace detail

std::string bytes_text(unsigned long long bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >> 10 * unit >= 1024 && unit + 1 < kUnits.size()) ++unit;
  if (unit == 0) return std::to_string(bytes) + " B";
  // Two digits, ties to even, as printf has them; lists of thousands of sizes are made so.
  const unsigned long long one = 1ull << 10 * unit, rest = bytes % one * 100 % one;
  unsigned long long hundredths = bytes / one * 100 + bytes % one * 100 / one;
  if (rest > one / 2 || (rest == one / 2 && hundredths % 2 == 1)) ++hundredths;
  std::string text = std::to_string(hundredths / 100);
  text.append({'.', static_cast<char>('0' + hundredths / 10 % 10), static_cast<char>('0' + hundredths % 10), ' '});
  return text += kUnits[unit];
}

std::string shown(std::string_view text) {
  constexpr std::size_t kMost = 80;
  if (text.size() <= kMost) return std::string(text);
  std::size_t end = kMost;
  const auto continues = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80; };
  while (end > 0 && continues(end)) --end;
  return std::string(text.substr(0, end)) + "...";
}

std::vector<std::string> split_text(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = std::min(text.find(separator, start), text.size());
    if (end > start) parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

bool matches(std::string_view pattern, std::string_view name) {
  std::size_t p = 0, n = 0;
  std::size_t star = std::string_view::npos, resume = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace graft

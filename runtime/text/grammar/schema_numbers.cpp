#include "runtime/text/grammar/schema_numbers.h"

#include <algorithm>
#include <string_view>

#include "platform/base/text.h"

namespace graft::text {
namespace {

std::string digit_class(char first, char last) {
  return first == last ? std::string("\"") + first + "\"" : std::string("[") + first + "-" + last + "]";
}

std::string any_digits(std::size_t count) { return count == 0 ? "" : " [0-9]{" + std::to_string(count) + "}"; }

/// Numbers of as many digits between two, leading zeros and all.
std::string same_length(std::string_view low, std::string_view high) {
  if (low.size() == 1) return digit_class(low[0], high[0]);
  const std::string_view low_rest = low.substr(1);
  const std::string_view high_rest = high.substr(1);
  const auto all = [](std::string_view text, char digit) {
    return text.find_first_not_of(digit) == std::string_view::npos;
  };
  if (low[0] == high[0]) return digit_class(low[0], low[0]) + " (" + same_length(low_rest, high_rest) + ")";
  std::string out;
  const auto add = [&](const std::string& one) { out += (out.empty() ? "" : " | ") + one; };
  char first = low[0];
  char last = high[0];
  if (!all(low_rest, '0')) {
    add(digit_class(first, first) + " (" + same_length(low_rest, std::string(low_rest.size(), '9')) + ")");
    ++first;
  }
  const bool cut = !all(high_rest, '9');
  if (cut) --last;
  if (first <= last) add(digit_class(first, last) + any_digits(low_rest.size()));
  if (cut) add(digit_class(high[0], high[0]) + " (" + same_length(std::string(high_rest.size(), '0'), high_rest) + ")");
  return out;
}

/// Numbers that are not negative.
std::string naturals_between(std::uint64_t low, std::uint64_t high) {
  std::string out;
  for (std::uint64_t begin = low; begin <= high;) {
    std::uint64_t end = 9;  // the last of as many digits
    while (end < begin) end = 10 * end + 9;
    end = std::min(end, high);
    out += (out.empty() ? "" : " | ") + same_length(std::to_string(begin), std::to_string(end));
    begin = end + 1;
  }
  return out;
}

}  // namespace

std::string integers_between(std::int64_t low, std::int64_t high) {
  std::string out;
  if (low < 0) {
    const auto most = static_cast<std::uint64_t>(-low);
    const auto least = high < 0 ? static_cast<std::uint64_t>(-high) : std::uint64_t{1};
    out = "\"-\" (" + naturals_between(least, most) + ")";
  }
  if (high < 0) return out;
  const auto rest = naturals_between(low < 0 ? 0 : static_cast<std::uint64_t>(low), static_cast<std::uint64_t>(high));
  return out.empty() ? rest : out + " | " + rest;
}

}  // namespace graft::text

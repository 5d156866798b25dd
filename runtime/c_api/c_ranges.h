// What interface/ranges.h is written with: the ranges of the numbers in C's structs.
#pragma once

#include <cmath>
#include <limits>
#include <span>

#include "platform/base/status.h"

namespace graft::c_api {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// A number of a struct, and its range; an end that is open does not belong to it.
struct Number {
  const char* field;
  double value, low, high;
  bool low_open, high_open;
};

/// As the device will compare them: a value that float rounds to an open end is refused.
inline bool is_in_range(const Number& number) {
  const auto value = static_cast<float>(number.value);
  const auto low = static_cast<float>(number.low), high = static_cast<float>(number.high);
  return (number.low_open ? value > low : value >= low) && (number.high_open ? value < high : value <= high);
}

inline Status check_numbers(const char* name, std::span<const Number> numbers) {
  for (const Number& number : numbers) {
    if (is_in_range(number)) continue;
    const std::string which = cat(name, ".", number.field, " is ", number.value, "; it must be ");
    if (number.high != kInfinity) {
      return invalid(which, "in ", number.low_open ? "(" : "[", number.low, ", ", number.high,
                     number.high_open ? ")." : "].");
    }
    if (number.low_open) return invalid(which, "a number above ", number.low, ".");
    return invalid(which, number.low == 1 ? "1 or more." : cat("a number of ", number.low, " or more."));
  }
  return ok_status();
}

/// Refuses numbers that are out of the range which their description says.
template <typename Struct>
Status check_ranges(const Struct&) {
  return ok_status();
}

}  // namespace graft::c_api

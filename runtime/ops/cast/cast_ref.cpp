#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "runtime/ops/cast/narrow_format.h"
#include "runtime/reference/ref_context.h"

namespace graft::ops::cast {
namespace {

double apply(double x, DType to) {
  if (to == DType::boolean) return x != 0 ? 1 : 0;
  if (to != DType::i32) return x;
  return std::isnan(x) ? 0 : std::clamp(std::trunc(x), -2147483648.0, 2147483647.0);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double wrapped(double x, const IntegerFormat& format) {
  const double range = std::ldexp(1.0, format.bits);
  const double low = x - range * std::floor(x / range);
  return format.has_sign && low >= range / 2 ? low - range : low;
}

double rounded(double x, const FloatFormat& format, bool saturate) {
  if (std::isnan(x)) return format.overflow == Overflow::saturate ? -0.0 : kNan;  // a format without it
  double y = std::abs(x);
  if (std::isfinite(y) && y != 0) {
    const double quantum = std::ldexp(1.0, std::max(std::ilogb(y), format.least) - format.mantissa);
    y = std::nearbyint(y / quantum) * quantum;
  }
  if (y > static_cast<double>(format.largest)) {
    const bool largest = saturate || format.overflow == Overflow::saturate;
    y = largest ? static_cast<double>(format.largest) : format.overflow == Overflow::nan ? kNan : HUGE_VAL;
  }
  return y == 0 && !format.negative_zero ? 0.0 : std::copysign(y, x);
}

double power_of_two(double x, const std::string& rounding, bool saturate) {
  const double y = std::abs(x);
  if (std::isnan(y)) return kNan;
  if (y <= 0x1p-127) return 0x1p-127;
  const double below = std::isinf(y) ? 0x1p128 : std::ldexp(1.0, std::ilogb(y));
  const bool more = rounding == "nearest" ? y >= 1.5 * below : rounding != "down" && y > below;
  const double chosen = more ? 2 * below : below;
  return chosen <= 0x1p127 ? chosen : saturate ? 0x1p127 : kNan;
}

}  // namespace

void ref_narrow(RefContext& c) {
  const std::string name = c.attrs().text("format");
  const bool saturate = c.attrs().flag("saturate");
  for (std::size_t i = 0; i < c.out().size(); ++i) {
    const double x = c.in(0)[i];
    if (const IntegerFormat* integer = find_format(kIntegerFormats, name)) {
      c.out()[i] = wrapped(x, *integer);
    } else if (const FloatFormat* format = find_format(kFloatFormats, name)) {
      c.out()[i] = rounded(x, *format, saturate);
    } else {
      c.out()[i] = power_of_two(x, c.attrs().text("rounding"), saturate);
    }
  }
}

void ref_cast(RefContext& c) {
  for (std::size_t i = 0; i < c.out().size(); ++i) c.out()[i] = apply(c.in(0)[i], c.out_dtype());
}

}  // namespace graft::ops::cast

#include <cmath>
#include <cstdint>

#include "platform/base/text.h"
#include "runtime/reference/ref_context.h"

namespace graft::ops::unpack {
namespace {

/// A number of `mantissa` bits behind `exponent` ones behind a sign (IEEE 754).
double from_bits(std::uint32_t bits, int exponent, int mantissa) {
  const int biased = static_cast<int>(bits >> mantissa & ((1u << exponent) - 1u)), bias = (1 << (exponent - 1)) - 1;
  const double fraction = static_cast<double>(bits & ((1u << mantissa) - 1u)) / (1 << mantissa);
  const double sign = (bits >> (exponent + mantissa)) != 0 ? -1 : 1;
  if (biased == 0) return sign * std::ldexp(fraction, 1 - bias);
  if (biased == (1 << exponent) - 1) return fraction != 0 ? std::nan("") : sign * INFINITY;
  return sign * std::ldexp(1 + fraction, biased - bias);
}

double element(std::uint32_t word, std::int64_t kind, std::uint32_t place) {
  if (kind < 2) {
    const std::uint32_t byte = word >> (8 * place) & 255u;
    return kind == 1 && byte >= 128 ? static_cast<double>(byte) - 256 : static_cast<double>(byte);
  }
  const std::uint32_t half = word >> (16 * place) & 0xffffu;
  return kind == 2 ? from_bits(half, 5, 10) : from_bits(half, 8, 7);
}

}  // namespace

void ref_fused_unpack(RefContext& c) {
  const std::int64_t kind = c.attrs().integer("kind"), channels = c.attrs().integer("channels");
  const std::uint64_t per_word = kind < 2 ? 4 : 2;
  const auto& dims = c.out_dims();
  std::uint64_t inner = 1;
  for (std::size_t i = dims.size(); channels > 1 && i-- > static_cast<std::size_t>(c.attrs().integer("axis")) + 1;) {
    inner *= static_cast<std::uint64_t>(dims[i]);
  }
  for (std::uint64_t i = 0; i < c.out().size(); ++i) {
    const auto word = static_cast<std::uint32_t>(static_cast<std::int64_t>(c.in(0)[i / per_word]));
    double x = element(word, kind, static_cast<std::uint32_t>(i % per_word));
    if (channels != 0) {
      const std::uint64_t channel = channels > 1 ? i / inner % static_cast<std::uint64_t>(channels) : 0;
      x = x * static_cast<float>(c.attrs().number(cat("scale", channel))) +
          static_cast<float>(c.attrs().number(cat("offset", channel)));
    }
    c.out()[i] = x;
  }
}

}  // namespace graft::ops::unpack

#include "runtime/core/quantized.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>

#include "platform/base/half.h"
#include "platform/base/text.h"
#include "runtime/core/quantized_fit.h"

namespace graft {
namespace {

constexpr DType kBlockFormats[] = {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0,
                                   DType::q5_1, DType::q4_k, DType::q5_k, DType::q6_k};

using Byte = std::uint8_t;

double half_at(const Byte* at) { return half_to_float(static_cast<std::uint16_t>(at[0] | at[1] << 8)); }

void put_half(Byte* at, float value) {
  const std::uint16_t bits = float_to_half(value);
  at[0] = static_cast<Byte>(bits);
  at[1] = static_cast<Byte>(bits >> 8);
}

/// The float that a stored half stands for: codes must be chosen for the scale that will be read.
float stored(float value) { return half_to_float(float_to_half(value)); }

float inverse(float scale) { return scale != 0 ? 1 / scale : 0; }

std::uint32_t nibble(const Byte* bytes, std::uint32_t i) { return i < 16 ? bytes[i] & 15u : bytes[i - 16] >> 4; }

struct ScaleMin {
  std::uint32_t scale;
  std::uint32_t min;
};

ScaleMin scale_min(const Byte* b, std::uint32_t j) {
  if (j < 4) return {b[j] & 63u, b[j + 4] & 63u};
  return {(b[j + 4] & 15u) | static_cast<std::uint32_t>(b[j - 4] >> 6) << 4,
          static_cast<std::uint32_t>(b[j + 4] >> 4) | static_cast<std::uint32_t>(b[j] >> 6) << 4};
}

void put_scale_min(Byte* b, std::uint32_t j, ScaleMin value) {
  if (j < 4) {
    b[j] = static_cast<Byte>((b[j] & 0xc0u) | value.scale);
    b[j + 4] = static_cast<Byte>((b[j + 4] & 0xc0u) | value.min);
    return;
  }
  b[j + 4] = static_cast<Byte>((value.scale & 15u) | (value.min & 15u) << 4);
  b[j - 4] = static_cast<Byte>((b[j - 4] & 63u) | (value.scale >> 4) << 6);
  b[j] = static_cast<Byte>((b[j] & 63u) | (value.min >> 4) << 6);
}

double element_k(DType dtype, const Byte* b, std::uint32_t i) {
  const std::uint32_t group = i / 32;
  const std::uint32_t l = i % 32;
  const Byte* nibbles = b + (dtype == DType::q5_k ? 48 : 16);
  std::uint32_t q = group % 2 == 0 ? nibbles[group / 2 * 32 + l] & 15u : nibbles[group / 2 * 32 + l] >> 4;
  if (dtype == DType::q5_k) q |= (b[16 + l] >> group & 1u) << 4;
  const ScaleMin s = scale_min(b + 4, group);
  return half_at(b) * s.scale * q - half_at(b + 2) * s.min;
}

double element_q6_k(const Byte* b, std::uint32_t i) {
  const std::uint32_t half = i / 128;
  const std::uint32_t k = i / 32 % 4;
  const std::uint32_t l = i % 32;
  const Byte low = b[64 * half + 32 * (k % 2) + l];
  const std::uint32_t high = b[128 + 32 * half + l] >> (2 * k) & 3u;
  const std::uint32_t q = (k < 2 ? low & 15u : low >> 4) | high << 4;
  return half_at(b + 208) * static_cast<std::int8_t>(b[192 + i / 16]) * (static_cast<double>(q) - 32);
}

std::uint32_t code(float value, std::uint32_t top) {
  return static_cast<std::uint32_t>(std::nearbyint(value > 0 ? std::min(value, static_cast<float>(top)) : 0.0f));
}

/// The fit of a group: by the extremes where no weights are given.
GroupFit fit(std::span<const float> x, std::span<const float> weights, const CodeRange& range) {
  return weights.empty() ? fit_extremes(x, range) : fit_least_error(x, weights, range);
}

std::span<const float> part(std::span<const float> weights, std::size_t first, std::size_t count) {
  return weights.empty() ? weights : weights.subspan(first, count);
}

void put_codes(DType dtype, Byte* at, const std::uint32_t (&q)[32]) {
  if (dtype == DType::q5_0 || dtype == DType::q5_1) {
    std::fill_n(at, 4, Byte{0});
    for (std::uint32_t i = 0; i < 32; ++i) at[i / 8] = static_cast<Byte>(at[i / 8] | (q[i] >> 4) << (i % 8));
    at += 4;
  }
  for (std::uint32_t i = 0; i < 16; ++i) at[i] = static_cast<Byte>((q[i] & 15u) | (q[i + 16] & 15u) << 4);
}

void quantize_q8_0(std::span<const float> x, std::span<const float> weights, Byte* b) {
  const float d = std::abs(fit(x, weights, {-127, 127}).scale);
  put_half(b, d);
  const float scale = inverse(stored(d));
  for (std::size_t i = 0; i < 32; ++i) {
    b[2 + i] = static_cast<Byte>(static_cast<std::int8_t>(std::clamp(std::nearbyint(x[i] * scale), -127.0f, 127.0f)));
  }
}

void quantize_small(DType dtype, std::span<const float> x, std::span<const float> weights, Byte* b) {
  const bool five = dtype == DType::q5_0 || dtype == DType::q5_1;
  const bool has_min = dtype == DType::q4_1 || dtype == DType::q5_1;
  const int top = five ? 31 : 15;
  const int middle = five ? 16 : 8;
  const GroupFit group =
      fit(x, weights, has_min ? CodeRange{0, top, CodeRange::Min::any} : CodeRange{-middle, top - middle});
  put_half(b, group.scale);
  if (has_min) put_half(b + 2, group.min);
  const float scale = inverse(stored(group.scale));
  const float shift = has_min ? stored(group.min) : 0;
  std::uint32_t q[32];
  for (std::size_t i = 0; i < 32; ++i) {
    q[i] = code((x[i] - shift) * scale + (has_min ? 0 : static_cast<float>(middle)), static_cast<std::uint32_t>(top));
  }
  put_codes(dtype, b + (has_min ? 4 : 2), q);
}

/// What numbers of at least 0 are best written with as codes of 6 bits.
float shared_scale(std::span<const float> numbers, std::span<const float> weights) {
  float below[8];  // as codes of -63 to 0, which a scale alone gives
  std::ranges::transform(numbers, below, std::negate());
  return std::max(fit(below, weights, {-63, 0}).scale, 0.0f);
}

void quantize_k(DType dtype, std::span<const float> x, std::span<const float> weights, Byte* b) {
  const std::uint32_t top = dtype == DType::q5_k ? 31 : 15;
  float scales[8];
  float mins[8];  // of what is subtracted: at least 0
  float scale_weights[8], min_weights[8];
  for (std::size_t j = 0; j < 8; ++j) {
    const auto numbers = x.subspan(32 * j, 32), w = part(weights, 32 * j, 32);
    const GroupFit group = fit(numbers, w, {0, static_cast<int>(top), CodeRange::Min::at_most_zero});
    scales[j] = std::max(group.scale, 0.0f);
    mins[j] = -group.min;
    double sum = 0, squares = 0;  // what an error of the scale and of the minimum costs
    for (std::size_t l = 0; l < w.size(); ++l) {
      const double steps = (numbers[l] + mins[j]) * inverse(scales[j]);
      sum += w[l];
      squares += w[l] * steps * steps;
    }
    min_weights[j] = static_cast<float>(sum);
    scale_weights[j] = static_cast<float>(squares);
  }
  const float d = shared_scale(scales, weights.empty() ? std::span<const float>() : scale_weights);
  const float dmin = shared_scale(mins, weights.empty() ? std::span<const float>() : min_weights);
  std::fill_n(b, dtype_block(dtype).bytes, Byte{0});
  put_half(b, d);
  put_half(b + 2, dmin);
  Byte* nibbles = b + (dtype == DType::q5_k ? 48 : 16);
  for (std::uint32_t j = 0; j < 8; ++j) {
    const ScaleMin s{code(scales[j] * inverse(stored(d)), 63), code(mins[j] * inverse(stored(dmin)), 63)};
    put_scale_min(b + 4, j, s);
    const float scale = inverse(stored(d) * static_cast<float>(s.scale));
    const float shift = stored(dmin) * static_cast<float>(s.min);
    for (std::uint32_t l = 0; l < 32; ++l) {
      const std::uint32_t q = code((x[32 * j + l] + shift) * scale, top);
      Byte& low = nibbles[j / 2 * 32 + l];
      low = static_cast<Byte>(low | (q & 15u) << (j % 2 * 4));
      if (dtype == DType::q5_k) b[16 + l] = static_cast<Byte>(b[16 + l] | (q >> 4) << j);
    }
  }
}

void quantize_q6_k(std::span<const float> x, std::span<const float> weights, Byte* b) {
  float scales[16];
  for (std::size_t j = 0; j < 16; ++j) {
    scales[j] = fit(x.subspan(16 * j, 16), part(weights, 16 * j, 16), {-32, 31}).scale;
  }
  const float d = fit_extremes(scales, {-128, 127}).scale;
  std::fill_n(b, dtype_block(DType::q6_k).bytes, Byte{0});
  put_half(b + 208, d);
  for (std::uint32_t i = 0; i < 256; ++i) {
    const float s = std::clamp(std::nearbyint(scales[i / 16] * inverse(stored(d))), -128.0f, 127.0f);
    b[192 + i / 16] = static_cast<Byte>(static_cast<std::int8_t>(s));
    const std::uint32_t q = code(x[i] * inverse(stored(d) * s) + 32, 63);
    const std::uint32_t k = i / 32 % 4;
    Byte& low = b[64 * (i / 128) + 32 * (k % 2) + i % 32];
    low = static_cast<Byte>(low | (q & 15u) << (k < 2 ? 0 : 4));
    Byte& high = b[128 + 32 * (i / 128) + i % 32];
    high = static_cast<Byte>(high | (q >> 4) << (2 * k));
  }
}

/// By the extremes where no weights are given.
void quantize_block(DType dtype, std::span<const float> x, std::span<const float> weights, Byte* to) {
  switch (dtype) {
    case DType::q8_0: return quantize_q8_0(x, weights, to);
    case DType::q4_k:
    case DType::q5_k: return quantize_k(dtype, x, weights, to);
    case DType::q6_k: return quantize_q6_k(x, weights, to);
    default: return quantize_small(dtype, x, weights, to);
  }
}

/// The sum of weight * error^2; infinity where the block's scale is.
double block_error(DType dtype, std::span<const float> x, std::span<const float> weights, const Byte* block) {
  double sum = 0;
  for (std::uint32_t i = 0; i < x.size(); ++i) {
    const double off = x[i] - dequantize_element(dtype, reinterpret_cast<const std::byte*>(block), i);
    sum += weights[i] * off * off;
  }
  return std::isfinite(sum) ? sum : std::numeric_limits<double>::infinity();
}

constexpr std::size_t kMostElements = 256;  // of a block
constexpr std::size_t kMostBlockBytes = 210;

constexpr auto kAlike = [] {
  std::array<float, kMostElements> all{};
  all.fill(1);
  return all;
}();

/// Without weights.
void quantize_plainly(DType dtype, std::span<const float> x, Byte* to) {
  if (x.size() < kMostElements) return quantize_block(dtype, x, {}, to);
  quantize_block(dtype, x, kAlike, to);
  // A better scale may be a little larger than f16 holds where that of the extremes is not.
  if (!std::isfinite(block_error(dtype, x, kAlike, to))) quantize_block(dtype, x, {}, to);
}

}  // namespace

double dequantize_element(DType dtype, const std::byte* block, std::uint32_t i) {
  const auto* b = reinterpret_cast<const Byte*>(block);
  const auto fifth = [&](const Byte* bits) { return (bits[i / 8] >> (i % 8) & 1u) << 4; };
  switch (dtype) {
    case DType::q8_0: return half_at(b) * static_cast<std::int8_t>(b[2 + i]);
    case DType::q4_0: return half_at(b) * (static_cast<double>(nibble(b + 2, i)) - 8);
    case DType::q4_1: return half_at(b) * nibble(b + 4, i) + half_at(b + 2);
    case DType::q5_0: return half_at(b) * (static_cast<double>(nibble(b + 6, i) | fifth(b + 2)) - 16);
    case DType::q5_1: return half_at(b) * (nibble(b + 8, i) | fifth(b + 4)) + half_at(b + 2);
    case DType::q4_k:
    case DType::q5_k: return element_k(dtype, b, i);
    case DType::q6_k: return element_q6_k(b, i);
    default: return 0;
  }
}

void dequantize(DType dtype, std::span<const std::byte> blocks, std::span<float> out) {
  const DTypeBlock block = dtype_block(dtype);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::byte* at = blocks.data() + i / block.elements * block.bytes;
    out[i] = static_cast<float>(dequantize_element(dtype, at, static_cast<std::uint32_t>(i % block.elements)));
  }
}

void quantize(DType dtype, std::span<const float> in, std::span<std::byte> out) { quantize(dtype, in, {}, out); }

void quantize(DType dtype, std::span<const float> in, std::span<const float> weights, std::span<std::byte> out) {
  const DTypeBlock block = dtype_block(dtype);
  auto* to = reinterpret_cast<Byte*>(out.data());
  for (std::size_t i = 0; i < in.size(); i += block.elements, to += block.bytes) {
    const auto x = in.subspan(i, block.elements);
    quantize_plainly(dtype, x, to);
    if (weights.empty()) continue;
    auto w = weights.subspan(i % weights.size(), block.elements);
    if (std::ranges::all_of(w, [](float weight) { return weight == 0; })) w = std::span(kAlike).first(w.size());
    std::array<Byte, kMostBlockBytes> weighed;
    quantize_block(dtype, x, w, weighed.data());
    if (block_error(dtype, x, w, weighed.data()) < block_error(dtype, x, w, to)) {
      std::copy_n(weighed.begin(), block.bytes, to);
    }
  }
}

std::optional<DType> fitting_blocks(DType wanted, std::uint64_t row) {
  if (row % dtype_block(wanted).elements == 0) return wanted;
  const DType smaller = wanted == DType::q4_k   ? DType::q5_0
                        : wanted == DType::q5_k ? DType::q5_1
                        : wanted == DType::q6_k ? DType::q8_0
                                                : wanted;
  return row % dtype_block(smaller).elements == 0 ? std::optional(smaller) : std::nullopt;
}

std::vector<std::string> block_format_names() {
  std::vector<std::string> names;
  for (const DType dtype : kBlockFormats) names.emplace_back(dtype_name(dtype));
  return names;
}

Result<std::optional<DType>> parse_block_format(std::string_view name) {
  if (name.empty()) return std::optional<DType>();
  for (const DType dtype : kBlockFormats) {
    if (dtype_name(dtype) == name) return std::optional(dtype);
  }
  std::string known;
  for (const std::string& one : block_format_names()) known += (known.empty() ? "" : ", ") + one;
  return invalid("There is no format of blocks \"", shown(name), "\"; there are ", known, ".");
}

}  // namespace graft

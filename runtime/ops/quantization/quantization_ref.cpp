#include <algorithm>
#include <cmath>

#include "runtime/ops/quantization/quantized_type.h"
#include "runtime/reference/ref_context.h"
#include "runtime/reference/ref_index.h"

namespace graft::ops::quantization {
namespace {

using Dims = std::vector<std::int64_t>;

/// Which scale is that of the element at `index`.
std::size_t scale_at(const RefContext& c, const Dims& x, const Dims& scale, const RefIndex& index) {
  if (ref_count(scale) == 1) return 0;
  const std::int64_t given = c.attrs().integer("axis"), block = c.attrs().integer("block_size");
  const std::size_t axis = static_cast<std::size_t>(given < 0 ? given + static_cast<std::int64_t>(x.size()) : given);
  if (block == 0) return static_cast<std::size_t>(index[axis]);
  RefIndex at = index;
  at[axis] /= block;
  return static_cast<std::size_t>(ref_flatten(at, scale));
}

/// One element with its scale and zero point.
struct Element {
  double x, scale, zero;
};

/// x / scale of f32 numbers, rounded to one, as the definition has it: ties are those of f32.
double quotient(const Element& e) { return static_cast<double>(static_cast<float>(e.x) / static_cast<float>(e.scale)); }

double unlimited(const Element& e) {
  const double q = quotient(e);
  return std::isnan(q) ? e.zero : std::nearbyint(q) + e.zero;
}

double quantized(const Element& e, const QuantizedType& type, bool saturate) {
  if (type.is_float()) return round_to_type(quotient(e) + e.zero, type, saturate);
  return std::clamp<double>(unlimited(e), type.low, type.high);
}

double dequantized(double q, const Element& e) { return (q - e.zero) * e.scale; }

template <typename Apply>
void for_each_element(RefContext& c, std::size_t x, std::size_t scale, Apply apply) {
  const QuantizedType& type = *find_quantized_type(c.attrs().text("type"));
  ref_for_each(c.out_dims(), [&](std::int64_t flat, const RefIndex& index) {
    const std::size_t at = scale_at(c, c.out_dims(), c.in_dims(scale), index);
    const double zero = c.has(scale + 1) ? c.in(scale + 1)[at] : 0;
    c.out()[flat] = apply(type, flat, Element{x == SIZE_MAX ? 0 : c.in(x)[flat], c.in(scale)[at], zero});
  });
}

/// Element i of packed words.
double packed(std::span<const double> words, std::int64_t i, const QuantizedType& type) {
  const auto per_word = static_cast<std::int64_t>(32 / type.bits);
  const auto word = static_cast<std::uint32_t>(static_cast<std::int64_t>(words[i / per_word]));
  const std::uint32_t value = word >> (i % per_word * type.bits) & ((1u << type.bits) - 1);
  const bool negative = type.is_signed && (value >> (type.bits - 1)) != 0;
  return static_cast<double>(value) - (negative ? std::ldexp(1.0, static_cast<int>(type.bits)) : 0.0);
}

}  // namespace

void ref_quantize(RefContext& c) {
  const bool saturate = c.attrs().flag("saturate");
  for_each_element(
      c, 0, 1, [&](const QuantizedType& type, std::int64_t, const Element& e) { return quantized(e, type, saturate); });
}

void ref_dequantize(RefContext& c) {
  const bool words = c.attrs().has("shape");
  for_each_element(c, words ? SIZE_MAX : 0, 1, [&](const QuantizedType& type, std::int64_t i, const Element& e) {
    return dequantized(words ? packed(c.in(0), i, type) : e.x, e);
  });
}

void ref_fake_quantize(RefContext& c) {
  const bool saturate = c.attrs().flag("saturate");
  for_each_element(c, 0, 1, [&](const QuantizedType& type, std::int64_t, const Element& e) {
    return dequantized(quantized(e, type, saturate), e);
  });
}

void ref_fake_quantize_grad(RefContext& c) {
  for_each_element(c, 1, 2, [&](const QuantizedType& type, std::int64_t i, const Element& e) {
    const double v = type.is_float() ? quotient(e) + e.zero : unlimited(e);
    return v >= type.low && v <= type.high ? c.in(0)[i] : 0.0;
  });
}

}  // namespace graft::ops::quantization

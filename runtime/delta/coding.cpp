#include "runtime/delta/coding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "platform/base/checked.h"
#include "platform/base/half.h"
#include "runtime/core/narrow.h"

namespace graft::delta {
namespace {

constexpr std::array<std::string_view, 4> kCodings = {"f32", "bf16", "int8", "fixed"};
constexpr double kMostCode = 127;

template <typename T>
void store(std::span<std::byte> out, std::size_t index, T value) {
  std::memcpy(&out[index * sizeof value], &value, sizeof value);
}

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, &bytes[index * sizeof value], sizeof value);
  return value;
}

void encode_blocks(std::span<const double> numbers, std::span<std::byte> out) {
  const std::size_t blocks = ceil_div(numbers.size(), kBlock);
  const auto codes = out.subspan(blocks * sizeof(float));
  for (std::size_t b = 0; b < blocks; ++b) {
    const auto block = numbers.subspan(b * kBlock, std::min(kBlock, numbers.size() - b * kBlock));
    double largest = 0;
    for (const double x : block) largest = std::max(largest, std::abs(x));
    const auto scale = static_cast<float>(largest / kMostCode);
    store(out, b, scale);
    for (std::size_t i = 0; i < block.size(); ++i) {
      const double code = scale > 0 ? std::nearbyint(block[i] / static_cast<double>(scale)) : 0;
      store(codes, b * kBlock + i, static_cast<std::int8_t>(std::clamp(code, -kMostCode, kMostCode)));
    }
  }
}

/// `times`: a number is kept as a float and a code of at most that.
Status check_floats(std::span<const double> numbers, DType dtype, double times) {
  const double limit = times * static_cast<double>(largest_number(dtype));
  const auto large = std::ranges::find_if(numbers, [&](double x) { return std::abs(x) > limit && std::isfinite(x); });
  if (large == numbers.end()) return ok_status();
  return invalid("The number ", *large, " is larger than ", limit, ", the largest that ", dtype_name(dtype),
                 " can say.");
}

Status encode_fixed(std::span<const double> numbers, const Fixed& fixed, std::span<std::byte> out) {
  const double limit = 0x1p31 / fixed.room;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double code = std::nearbyint(numbers[i] * fixed.scale);
    if (!(std::abs(code) < limit)) {
      return invalid("The number ", numbers[i], " does not fit as an integer of 32 bits times ", fixed.scale,
                     " with room for ", fixed.room,
                     " clients; take fewer bits, room for fewer, or a smaller norm to clip to.");
    }
    store(out, i, static_cast<std::uint32_t>(static_cast<std::int64_t>(code)));
  }
  return ok_status();
}

}  // namespace

std::string_view coding_name(Coding coding) { return kCodings[static_cast<std::size_t>(coding)]; }

Result<Coding> parse_coding(std::string_view name) {
  const auto* const found = std::ranges::find(kCodings, name);
  if (found != kCodings.end()) return static_cast<Coding>(found - kCodings.begin());
  return invalid("A delta is coded as f32, bf16, int8 or fixed, not as \"", name, "\".");
}

std::size_t coded_bytes(Coding coding, std::size_t numbers) {
  switch (coding) {
    case Coding::f32:
    case Coding::fixed: return 4 * numbers;
    case Coding::bf16: return 2 * numbers;
    case Coding::int8: return ceil_div(numbers, kBlock) * sizeof(float) + numbers;
  }
  return 0;
}

std::size_t coded_width(Coding coding) { return coding == Coding::int8 ? 1 : coding == Coding::bf16 ? 2 : 4; }

Status encode(Coding coding, std::span<const double> numbers, const Fixed& fixed, std::span<std::byte> out) {
  switch (coding) {
    case Coding::f32:
      GRAFT_TRY(check_floats(numbers, DType::f32, 1));
      for (std::size_t i = 0; i < numbers.size(); ++i) store(out, i, static_cast<float>(numbers[i]));
      return ok_status();
    case Coding::bf16:
      GRAFT_TRY(check_floats(numbers, DType::bf16, 1));
      for (std::size_t i = 0; i < numbers.size(); ++i) store(out, i, float_to_bfloat(static_cast<float>(numbers[i])));
      return ok_status();
    case Coding::int8:
      GRAFT_TRY(check_floats(numbers, DType::f32, kMostCode));
      encode_blocks(numbers, out);
      return ok_status();
    case Coding::fixed: return encode_fixed(numbers, fixed, out);
  }
  return ok_status();
}

void decode(Coding coding, std::span<const std::byte> coded, const Fixed& fixed, std::span<float> numbers) {
  const auto codes = coded.subspan(coding == Coding::int8 ? ceil_div(numbers.size(), kBlock) * sizeof(float) : 0);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    switch (coding) {
      case Coding::f32: numbers[i] = load<float>(coded, i); break;
      case Coding::bf16: numbers[i] = bfloat_to_float(load<std::uint16_t>(coded, i)); break;
      case Coding::int8:
        numbers[i] = load<float>(coded, i / kBlock) * static_cast<float>(load<std::int8_t>(codes, i));
        break;
      case Coding::fixed:
        numbers[i] = static_cast<float>(static_cast<std::int32_t>(load<std::uint32_t>(coded, i)) / fixed.scale);
        break;
    }
  }
}

std::uint32_t integer_at(std::span<const std::byte> coded, std::size_t index) {
  return load<std::uint32_t>(coded, index);
}

}  // namespace graft::delta

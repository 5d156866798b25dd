#include "runtime/exec/numbers.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "platform/base/half.h"

namespace graft {
namespace {

struct Single {
  using Bits = float;
  static float number(Bits x) { return x; }
  static Bits bits(float x) { return x; }
};
struct Half {
  using Bits = std::uint16_t;
  static float number(Bits x) { return half_to_float(x); }
  static Bits bits(float x) { return float_to_half(x); }
};
struct Bfloat {
  using Bits = std::uint16_t;
  static float number(Bits x) { return bfloat_to_float(x); }
  static Bits bits(float x) { return float_to_bfloat(x); }
};

/// Calls use with the traits of a type of floats.
template <typename Use>
void with_type(DType dtype, Use use) {
  if (dtype == DType::f16) {
    use(Half{});
  } else if (dtype == DType::bf16) {
    use(Bfloat{});
  } else {
    use(Single{});
  }
}

// Bytes of files need not stand at multiples of their size.
template <typename Bits>
Bits load(const std::byte* at) {
  Bits x;
  std::memcpy(&x, at, sizeof(Bits));
  return x;
}

template <typename From, typename To>
void convert(std::span<const std::byte> source, std::byte* target) {
  using In = typename From::Bits;
  using Out = typename To::Bits;
  const std::size_t count = source.size() / sizeof(In);
  for (std::size_t i = 0; i < count; ++i) {
    const Out x = To::bits(From::number(load<In>(source.data() + i * sizeof(In))));
    std::memcpy(target + i * sizeof(Out), &x, sizeof(Out));
  }
}

/// The least f32 that rounds to infinity.
float limit_of(DType dtype) {
  return dtype == DType::f16 ? 65520.0f : std::bit_cast<float>(dtype == DType::bf16 ? 0x7f7f8000u : 0x7f800000u);
}

}  // namespace

void convert_numbers(DType from, std::span<const std::byte> source, DType to, std::byte* target) {
  if (from == to) {
    if (!source.empty()) std::memcpy(target, source.data(), source.size());
    return;
  }
  with_type(from,
            [&](auto in) { with_type(to, [&](auto out) { convert<decltype(in), decltype(out)>(source, target); }); });
}

void round_numbers(DType type, std::span<const std::byte> source, DType stored, std::byte* target) {
  if (type == stored) {
    convert_numbers(type, source, type, target);
    return;
  }
  std::array<std::byte, 4096> narrow;
  const std::size_t most = narrow.size() / dtype_size(stored) * dtype_size(type);
  for (std::size_t at = 0; at < source.size(); at += most) {
    const auto some = source.subspan(at, std::min(most, source.size() - at));
    const std::size_t bytes = some.size() / dtype_size(type) * dtype_size(stored);
    convert_numbers(type, some, stored, narrow.data());
    convert_numbers(stored, std::span(narrow).first(bytes), type, target + at);
  }
}

std::optional<float> first_beyond(DType from, std::span<const std::byte> source, DType to) {
  std::optional<float> found;
  if (from == to || to == DType::f32) return found;
  const float limit = limit_of(to);
  with_type(from, [&](auto in) {
    using In = decltype(in);
    for (std::size_t at = 0; at < source.size() && !found; at += sizeof(typename In::Bits)) {
      const float x = In::number(load<typename In::Bits>(source.data() + at));
      if (std::abs(x) >= limit && std::isfinite(x)) found = x;
    }
  });
  return found;
}

}  // namespace graft

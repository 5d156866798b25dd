#include "tools/convert/common/host_tensor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "platform/base/checked.h"

namespace graft::convert {

namespace {

struct ElemInfo {
  ElemType type;
  const char* name;
  std::uint8_t bits;
  bool is_float;
  std::string_view format;  ///< of Op::narrow
};
constexpr ElemInfo kElems[] = {
    {ElemType::f32, "float32", 32, true, ""},
    {ElemType::u8, "uint8", 8, false, "u8"},
    {ElemType::i8, "int8", 8, false, "i8"},
    {ElemType::u16, "uint16", 16, false, "u16"},
    {ElemType::i16, "int16", 16, false, "i16"},
    {ElemType::i32, "int32", 32, false, ""},
    {ElemType::i64, "int64", 64, false, ""},
    {ElemType::boolean, "bool", 8, false, ""},
    {ElemType::f16, "float16", 16, true, "f16"},
    {ElemType::f64, "float64", 64, true, ""},
    {ElemType::u32, "uint32", 32, false, ""},
    {ElemType::u64, "uint64", 64, false, ""},
    {ElemType::bf16, "bfloat16", 16, true, "bf16"},
    {ElemType::f8e4m3fn, "float8e4m3fn", 8, true, "f8e4m3fn"},
    {ElemType::f8e4m3fnuz, "float8e4m3fnuz", 8, true, "f8e4m3fnuz"},
    {ElemType::f8e5m2, "float8e5m2", 8, true, "f8e5m2"},
    {ElemType::f8e5m2fnuz, "float8e5m2fnuz", 8, true, "f8e5m2fnuz"},
    {ElemType::u4, "uint4", 4, false, "u4"},
    {ElemType::i4, "int4", 4, false, "i4"},
    {ElemType::f4e2m1, "float4e2m1", 4, true, "f4e2m1"},
    {ElemType::f8e8m0, "float8e8m0", 8, true, "f8e8m0"},
    {ElemType::u2, "uint2", 2, false, "u2"},
    {ElemType::i2, "int2", 2, false, "i2"},
};

const ElemInfo* find_elem(ElemType type) {
  for (const ElemInfo& info : kElems) {
    if (info.type == type) return &info;
  }
  return nullptr;
}

/// Sign, exponent and mantissa of a small float, without infinities.
float small_float(std::uint32_t bits, int exponent_bits, int mantissa_bits, int bias) {
  const std::uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const std::uint32_t exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
  const bool negative = (bits >> (exponent_bits + mantissa_bits) & 1u) != 0;
  const double scaled = exponent == 0 ? mantissa : mantissa + (1u << mantissa_bits);
  const double value = std::ldexp(scaled, std::max<int>(static_cast<int>(exponent), 1) - bias - mantissa_bits);
  return static_cast<float>(negative ? -value : value);
}

}  // namespace

std::string elem_name(ElemType type) {
  if (const ElemInfo* info = find_elem(type)) return info->name;
  const int code = static_cast<int>(type);
  if (type == ElemType::undefined) return "undefined";
  if (type == ElemType::text) return "string";
  if (code == 14) return "complex64";
  if (code == 15) return "complex128";
  return cat("element type ", code);
}

std::uint64_t elem_bits(ElemType type) {
  const ElemInfo* info = find_elem(type);
  return info == nullptr ? 0 : info->bits;
}

std::optional<std::uint64_t> elem_bytes(ElemType type, std::uint64_t count) {
  const auto bits = checked_mul(count, elem_bits(type));
  if (!bits) return std::nullopt;
  return *bits / 8 + (*bits % 8 != 0 ? 1 : 0);
}

bool is_float(ElemType type) {
  const ElemInfo* info = find_elem(type);
  return info != nullptr && info->is_float;
}

bool is_integer(ElemType type) {
  const ElemInfo* info = find_elem(type);
  return info != nullptr && !info->is_float && type != ElemType::boolean;
}

std::string_view narrow_format(ElemType type) {
  const ElemInfo* info = find_elem(type);
  return info == nullptr ? std::string_view() : info->format;
}

std::optional<IntegerRange> integer_range(ElemType type) {
  if (!is_integer(type)) return std::nullopt;
  const auto bits = static_cast<unsigned>(elem_bits(type));
  const bool has_sign = type == ElemType::i64 || type == ElemType::i32 || type == ElemType::i16 ||
                        type == ElemType::i8 || type == ElemType::i4 || type == ElemType::i2;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  if (has_sign) {
    const std::int64_t high = bits == 64 ? kMost : (std::int64_t{1} << (bits - 1)) - 1;
    return IntegerRange{-high - 1, high};
  }
  return IntegerRange{0, bits == 64 ? kMost : (std::int64_t{1} << bits) - 1};
}

std::int64_t wrapped(std::int64_t value, ElemType type) {
  const auto range = integer_range(type);
  if (!range || elem_bits(type) >= 64) return value;
  const std::int64_t size = std::int64_t{1} << elem_bits(type);
  const std::int64_t low = value & (size - 1);
  return low > range->high ? low - size : low;
}

SourceType source_type(ElemType type) {
  for (std::uint8_t i = 1; i <= static_cast<std::uint8_t>(kLastSourceType); ++i) {
    if (source_type_info(SourceType{i}).name == elem_name(type)) return SourceType{i};
  }
  return SourceType::same;
}

bool holds_all(ElemType to, ElemType from) {
  if (to == from) return true;
  const auto wide = integer_range(to), narrow = integer_range(from);
  if (wide && narrow) return wide->low <= narrow->low && wide->high >= narrow->high;
  if (from == ElemType::boolean) return true;
  if (!is_float(to) || !is_float(from)) return false;
  // Of the 16-bit types neither holds the other; the smaller ones are numbers of float16, apart from powers of two.
  if (to == ElemType::f32 || to == ElemType::f64) return true;
  const bool small = elem_bits(from) <= 8 && from != ElemType::f8e8m0;
  return (to == ElemType::f16 && small) || (to == ElemType::bf16 && elem_bits(from) <= 8);
}

float decode_float(ElemType type, std::uint8_t bits) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::uint8_t magnitude = bits & 0x7f;
  switch (type) {
    case ElemType::f8e4m3fn: return magnitude == 0x7f ? kNan : small_float(bits, 4, 3, 7);
    case ElemType::f8e4m3fnuz: return bits == 0x80 ? kNan : small_float(bits, 4, 3, 8);
    case ElemType::f8e5m2:
      if (magnitude > 0x7c) return kNan;
      if (magnitude == 0x7c) return bits == magnitude ? HUGE_VALF : -HUGE_VALF;
      return small_float(bits, 5, 2, 15);
    case ElemType::f8e5m2fnuz: return bits == 0x80 ? kNan : small_float(bits, 5, 2, 16);
    case ElemType::f4e2m1: return small_float(bits, 2, 1, 1);
    case ElemType::f8e8m0: return bits == 0xff ? kNan : std::ldexp(1.0F, static_cast<int>(bits) - 127);
    default: return kNan;
  }
}

Result<DType> device_dtype(ElemType type) {
  if (is_float(type)) return DType::f32;
  if (is_integer(type)) return DType::i32;
  if (type == ElemType::boolean) return DType::boolean;
  return unsupported("the element type ", elem_name(type), " cannot be computed with (numbers and bool can)");
}

std::size_t HostTensor::count() const {
  std::size_t n = 1;
  for (const std::int64_t d : dims) n *= static_cast<std::size_t>(d);
  return n;
}

HostTensor HostTensor::of_ints(std::vector<std::int64_t> values) {
  HostTensor t;
  t.type = ElemType::i64;
  t.dims = {static_cast<std::int64_t>(values.size())};
  t.ints = std::move(values);
  return t;
}

HostTensor HostTensor::of_dims(const std::vector<Dim>& values) {
  HostTensor t;
  t.type = ElemType::i64;
  t.dims = {static_cast<std::int64_t>(values.size())};
  bool symbolic = false;
  for (const Dim& d : values) symbolic |= !d.is_constant();
  if (symbolic) {
    t.symbols = values;
  } else {
    for (const Dim& d : values) t.ints.push_back(d.value());
  }
  return t;
}

HostTensor HostTensor::of_floats(std::vector<std::int64_t> dims, std::vector<float> values) {
  HostTensor t;
  t.dims = std::move(dims);
  t.floats = std::move(values);
  return t;
}

HostTensor HostTensor::scalar(float value) { return of_floats({}, {value}); }

std::optional<float> narrowed(double value) {
  // Half a step above the largest float rounds to infinity.
  if (std::isfinite(value) && std::abs(value) >= 0x1.ffffffp127) return std::nullopt;
  return static_cast<float>(value);
}

Status beyond_float32(double value) {
  return unsupported("it holds ", value, ", which is beyond the range of float32");
}

std::optional<std::uint64_t> element_count(const std::vector<std::int64_t>& dims) {
  std::int64_t n = 1;
  bool empty = false;
  for (const std::int64_t d : dims) {
    if (d < 0) return std::nullopt;
    if (d == 0) {
      empty = true;
      continue;
    }
    const auto product = checked_mul(n, d);
    if (!product || *product > (std::int64_t{1} << 62)) return std::nullopt;
    n = *product;
  }
  return empty ? 0 : static_cast<std::uint64_t>(n);
}

HostTensor take(const HostTensor& in, std::vector<std::int64_t> dims, const std::vector<std::size_t>& source) {
  HostTensor out;
  out.type = in.type;
  out.dims = std::move(dims);
  const auto fill = [&](const auto& from, auto& to) {
    to.reserve(source.size());
    for (const std::size_t i : source) to.push_back(from[i]);
  };
  if (is_float(in.type)) {
    fill(in.floats, out.floats);
  } else if (in.symbolic()) {
    fill(in.symbols, out.symbols);
  } else {
    fill(in.ints, out.ints);
  }
  return out;
}

std::vector<std::size_t> strided_walk(const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& strides,
                                      std::int64_t start) {
  std::size_t total = 1;
  for (const std::int64_t d : dims) total *= static_cast<std::size_t>(d);
  std::vector<std::size_t> out;
  out.reserve(total);
  std::vector<std::int64_t> index(dims.size(), 0);
  std::int64_t at = start;
  for (std::size_t n = 0; n < total; ++n) {
    out.push_back(static_cast<std::size_t>(at));
    for (std::size_t axis = dims.size(); axis-- > 0;) {
      at += strides[axis];
      if (++index[axis] < dims[axis]) break;
      at -= strides[axis] * dims[axis];
      index[axis] = 0;
    }
  }
  return out;
}

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

HostTensor transposed(const HostTensor& in, const std::vector<std::uint8_t>& perm) {
  if (perm.empty()) return in;
  const auto strides = row_major_strides(in.dims);
  std::vector<std::int64_t> dims, walk;
  for (const std::uint8_t axis : perm) {
    dims.push_back(in.dims[axis]);
    walk.push_back(strides[axis]);
  }
  const auto source = strided_walk(dims, walk);
  return take(in, std::move(dims), source);
}

}  // namespace graft::convert

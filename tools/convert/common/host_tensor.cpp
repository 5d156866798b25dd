#include "tools/convert/common/host_tensor.h"

#include <bit>
#include <cmath>

#include "platform/base/checked.h"

namespace graft::convert {

std::string elem_name(ElemType type) {
  switch (type) {
    case ElemType::undefined: return "undefined";
    case ElemType::f32: return "float32";
    case ElemType::u8: return "uint8";
    case ElemType::i8: return "int8";
    case ElemType::u16: return "uint16";
    case ElemType::i16: return "int16";
    case ElemType::i32: return "int32";
    case ElemType::i64: return "int64";
    case ElemType::text: return "string";
    case ElemType::boolean: return "bool";
    case ElemType::f16: return "float16";
    case ElemType::f64: return "float64";
    case ElemType::u32: return "uint32";
    case ElemType::u64: return "uint64";
    case ElemType::bf16: return "bfloat16";
  }
  static constexpr const char* kNewer[] = {"float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
                                           "uint4",        "int4",           "float4e2m1", "float8e8m0"};
  const int code = static_cast<int>(type);
  if (code == 14) return "complex64";
  if (code == 15) return "complex128";
  if (code >= 17 && code < 25) return kNewer[code - 17];
  return cat("element type ", code);
}

std::uint64_t elem_size(ElemType type) {
  switch (type) {
    case ElemType::u8:
    case ElemType::i8:
    case ElemType::boolean: return 1;
    case ElemType::u16:
    case ElemType::i16:
    case ElemType::f16:
    case ElemType::bf16: return 2;
    case ElemType::f32:
    case ElemType::i32:
    case ElemType::u32: return 4;
    case ElemType::f64:
    case ElemType::i64:
    case ElemType::u64: return 8;
    default: return 0;
  }
}

bool is_float(ElemType type) {
  return type == ElemType::f32 || type == ElemType::f64 || type == ElemType::f16 || type == ElemType::bf16;
}

bool is_integer(ElemType type) {
  switch (type) {
    case ElemType::u8:
    case ElemType::i8:
    case ElemType::u16:
    case ElemType::i16:
    case ElemType::i32:
    case ElemType::i64:
    case ElemType::u32:
    case ElemType::u64: return true;
    default: return false;
  }
}

Result<DType> device_dtype(ElemType type) {
  if (is_float(type)) return DType::f32;
  if (type == ElemType::i32 || type == ElemType::i64) return DType::i32;
  if (type == ElemType::boolean) return DType::boolean;
  return unsupported("the element type ", elem_name(type),
                     " cannot be computed with (float32, float64, float16, bfloat16, int32, int64 and bool can)");
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

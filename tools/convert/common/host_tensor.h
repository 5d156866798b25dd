// Tensors that the converter holds on the host: initializers and everything that can be computed from them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/half.h"
#include "runtime/core/dtype.h"
#include "runtime/core/shape.h"
#include "runtime/core/source_type.h"

namespace graft::convert {

/// Element types, numbered as in ONNX's TensorProto.DataType.
enum class ElemType : std::int32_t {
  undefined = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  text = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  bf16 = 16,
  f8e4m3fn = 17,
  f8e4m3fnuz = 18,
  f8e5m2 = 19,
  f8e5m2fnuz = 20,
  u4 = 21,
  i4 = 22,
  f4e2m1 = 23,
  f8e8m0 = 24,
  u2 = 25,
  i2 = 26,
};
std::string elem_name(ElemType type);  ///< "float32", "int64", ..., "element type 23"
/// Bits of one element in raw data; 0 for types that graft does not read. Less than 8: packed, lowest bits first.
std::uint64_t elem_bits(ElemType type);
/// Bytes of `count` elements in raw data, or nullopt where that overflows.
std::optional<std::uint64_t> elem_bytes(ElemType type, std::uint64_t count);
bool is_float(ElemType type);
bool is_integer(ElemType type);
/// The format that Op::narrow knows the type by; empty for types of 32 bits and more, and for bool.
std::string_view narrow_format(ElemType type);
/// How the type stands in a model; `same` too for those that only their words can say (4 bits, 8-bit floats).
SourceType source_type(ElemType type);
/// Whether every number of `from` is one of `to`.
bool holds_all(ElemType to, ElemType from);
/// Least and greatest of an integer type; of uint64 what int64 holds.
struct IntegerRange {
  std::int64_t low, high;
};
std::optional<IntegerRange> integer_range(ElemType type);
/// Arithmetic of types narrower than 32 bits, and of uint32, keeps the low bits.
std::int64_t wrapped(std::int64_t value, ElemType type);
/// As float32, in which graft computes; nullopt for a finite number that float32 has none for.
std::optional<float> narrowed(double value);
/// unsupported: "it holds 1e+300, which is beyond the range of float32".
Status beyond_float32(double value);
/// A float of 8 or 4 bits.
float decode_float(ElemType type, std::uint8_t bits);
/// What a runtime value of this type becomes in graft; an error that names the type where it cannot.
Result<DType> device_dtype(ElemType type);

/// A tensor known at conversion. Floats of every width are held as f32; integers and booleans as int64, and where
/// an element is symbolic (computed from a symbolic shape) all of them as `symbols`.
struct HostTensor {
  ElemType type = ElemType::f32;
  std::vector<std::int64_t> dims;
  std::vector<float> floats;
  std::vector<std::int64_t> ints;
  std::vector<Dim> symbols;

  std::size_t count() const;
  bool symbolic() const { return !symbols.empty(); }
  /// Element i of an integer tensor.
  Dim dim(std::size_t i) const { return symbolic() ? symbols[i] : Dim(ints[i]); }
  double number(std::size_t i) const { return is_float(type) ? floats[i] : static_cast<double>(ints[i]); }
  Shape shape() const { return Shape::of(dims); }

  static HostTensor of_ints(std::vector<std::int64_t> values);  ///< rank 1, int64
  static HostTensor of_dims(const std::vector<Dim>& values);    ///< rank 1, int64
  static HostTensor of_floats(std::vector<std::int64_t> dims, std::vector<float> values);
  static HostTensor scalar(float value);
};

/// The product of dims, or nullopt when one is negative or the product exceeds 2^62.
std::optional<std::uint64_t> element_count(const std::vector<std::int64_t>& dims);

/// out[i] = in[source[i]].
HostTensor take(const HostTensor& in, std::vector<std::int64_t> dims, const std::vector<std::size_t>& source);
/// Source indices for a row-major walk over `dims`, where axis i advances by strides[i] from `start`.
std::vector<std::size_t> strided_walk(const std::vector<std::int64_t>& dims, const std::vector<std::int64_t>& strides,
                                      std::int64_t start = 0);
std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& dims);
HostTensor transposed(const HostTensor& in, const std::vector<std::uint8_t>& perm);

}  // namespace graft::convert

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
};
std::string elem_name(ElemType type);  ///< "float32", "int64", ..., "element type 23"
/// Bytes of one element in raw data; 0 for types that graft does not read.
std::uint64_t elem_size(ElemType type);
bool is_float(ElemType type);
bool is_integer(ElemType type);
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

// The text at the start of a .npy file: a Python dictionary of three known keys, and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/core/dtype.h"
#include "runtime/core/shape.h"

namespace graft::data {

struct NpyHeader {
  Shape shape;
  char kind = 'f';        ///< f, i, u or b
  std::uint8_t size = 4;  ///< bytes of an element
  bool big_endian = false;
  bool fortran_order = false;
  std::span<const std::byte> data;  ///< exactly the elements
};

/// Accepts what NumPy writes in versions 1 to 3; the rest is an error. `bytes` is the whole file.
Result<NpyHeader> parse_npy_header(std::span<const std::byte> bytes);

/// Magic, version 1 and the dictionary, padded to a multiple of 64 bytes.
Result<std::string> npy_header(DType dtype, const Shape& shape);
/// The same of an element type by NumPy's own name, as in "<i8".
std::string npy_header(std::string_view type, const Shape& shape);

}  // namespace graft::data

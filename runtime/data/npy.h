// NumPy's .npy files, versions 1 to 3. Whatever number type a file holds, its elements are read as f32 (float16,
// float32, float64), i32 (integers of 8 to 64 bits) or boolean, in row-major order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "platform/base/allocator.h"
#include "platform/os/file.h"
#include "runtime/core/dtype.h"
#include "runtime/core/shape.h"
#include "runtime/core/source_type.h"

namespace graft::data {

/// A tensor in host memory, row-major, packed.
struct Array {
  DType dtype = DType::f32;
  Shape shape;  ///< constant
  HostBuffer buffer;
};

/// An open .npy file: mapped, and converted as it is read, so that a file larger than memory can be a data set.
class NpyReader {
 public:
  /// Errors: corrupt for a header that is malformed or promises more data than there is; unsupported for element types
  /// other than numbers and booleans, and ranks above Shape::kMaxRank.
  static Result<NpyReader> open(os::FileSystem& files, const std::string& path);
  /// From memory that outlives the reader; `name` stands for the file in messages.
  static Result<NpyReader> from_bytes(std::span<const std::byte> bytes, std::string name);

  DType dtype() const { return dtype_; }  ///< f32, i32 or boolean
  const Shape& shape() const { return shape_; }
  std::uint64_t elements() const { return shape_.elements(); }

  /// Whether every integer fits 32 bits; reads 64-bit and unsigned 32-bit files once.
  bool fits_words() const;
  /// From now on integers are read as f32, rounded where they have more than 24 bits.
  void read_as_float() { dtype_ = DType::f32; }

  /// Elements [first, first + count) in row-major order; out.size() must be count * dtype_size(dtype()).
  /// An error where an integer does not fit 32 bits, or a finite float64 exceeds what float32 can hold.
  Status read(std::uint64_t first, std::uint64_t count, std::span<std::byte> out) const;

 private:
  NpyReader() = default;

  std::unique_ptr<os::MappedFile> file_;
  std::span<const std::byte> data_;  // the elements as stored
  std::string name_;
  Shape shape_;
  DType dtype_ = DType::f32;
  char kind_ = 'f';        // f, i, u or b
  std::uint8_t size_ = 4;  // bytes of a stored element
  bool big_endian_ = false;
  bool fortran_order_ = false;
};

/// A whole file.
Result<Array> read_npy(os::FileSystem& files, const std::string& path,
                       const HostAllocator& allocator = default_host_allocator());

/// Writes version 1, little-endian, row-major: f32 as <f4, i32 as <i4, boolean as |b1, f16 as <f2 (bf16 has no NumPy
/// type). `bytes` holds the elements of `shape`, packed. The file is replaced atomically.
Status write_npy(os::FileSystem& files, const std::string& path, DType dtype, const Shape& shape,
                 std::span<const std::byte> bytes);
/// The same in the source model's element type (bfloat16 as <f4). An error where an integer does not fit it.
Status write_npy_as(os::FileSystem& files, const std::string& path, SourceType type, DType dtype, const Shape& shape,
                    std::span<const std::byte> bytes);

}  // namespace graft::data

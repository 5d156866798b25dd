// NumPy's .npy files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/common/status.h"

namespace graft::cli {

/// What elements become, whatever number type a file holds: words of 32 bits.
enum class NpyType : std::uint8_t { f32, i32, boolean };
/// "f32", "i32", "bool"
const char* npy_type_name(NpyType type);

/// In host memory, row-major. Movable.
struct NpyArray {
  NpyType type = NpyType::f32;
  std::vector<std::int64_t> dims;
  std::unique_ptr<std::byte[]> data;
  std::size_t bytes = 0;

  std::span<const std::byte> contents() const { return {data.get(), bytes}; }
};
Result<NpyArray> read_npy(const std::string& path);
/// Replaces the file atomically. `source`: an element type by name, as graft_tensor_text.source_dtype has it; empty:
/// the array's own. An error where an integer does not fit it.
Status write_npy(const std::string& path, NpyType type, std::span<const std::int64_t> dims,
                 std::span<const std::byte> contents, std::string_view source = {});

/// "[2, 3]"
std::string dims_text(std::span<const std::int64_t> dims);

}  // namespace graft::cli

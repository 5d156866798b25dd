// Tensors as model files hold them: where their bytes lie, and how those encode numbers.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/allocator.h"
#include "platform/base/status.h"
#include "platform/os/file.h"
#include "runtime/core/dtype.h"
#include "tools/convert/common/ggml_expand.h"

namespace graft::convert {

/// By ggml's number; nullopt for types that graft does not read.
std::optional<DType> dtype_of_ggml(std::uint32_t type);
/// ggml's name of a type, "IQ2_XS"; of one that it does not have (yet), "number 99".
std::string ggml_type_name(std::uint32_t type);
/// The names of those that graft reads, for messages.
std::string ggml_types_read();
/// The other way round. Requires a type of weights: floats and blocks.
std::uint32_t ggml_of_dtype(DType dtype);

struct SourceTensor {
  std::vector<std::int64_t> dims;  ///< row-major
  DType dtype = DType::f32;
  std::span<const std::byte> bytes;        ///< of the mapped file; as many as dims and dtype, or `expanded`, need
  const ExpandedType* expanded = nullptr;  ///< the bytes are blocks of it, which become f32

  std::uint64_t elements() const;
};

/// Bytes of a tensor: corrupt where the product overflows or rows are no whole number of blocks.
Result<std::uint64_t> bytes_needed(const std::vector<std::int64_t>& dims, DType dtype);

/// All numbers as f32, in the same order.
Result<HostBuffer> to_f32(const SourceTensor& tensor, std::string_view name);

/// Tensors by name with the files that hold their bytes.
struct SourceTensors {
  std::map<std::string, SourceTensor, std::less<>> by_name;
  std::vector<std::unique_ptr<os::MappedFile>> files;

  const SourceTensor* find(std::string_view name) const;
};

}  // namespace graft::convert

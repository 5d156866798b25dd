// Writing safetensors: eight bytes with the length of a JSON header, the header, then the tensors' bytes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/checkpoint/manifest.h"
#include "runtime/core/graph.h"

namespace graft::cli {

struct SafeTensor {
  std::string name;
  std::string dtype;  ///< "F32", "I32", "F16", "BF16"
  std::vector<std::int64_t> dims;
  std::vector<std::byte> bytes;
};

/// A stream's bytes in the source model's order of axes. unsupported where that cannot be said.
Result<SafeTensor> to_source_layout(const checkpoint::Stream& stream, std::span<const std::byte> bytes,
                                    const std::vector<std::int64_t>& dims, const SourcePerm& perm);

/// Replaces `path` atomically.
Status write_safetensors(const std::string& path, const std::vector<SafeTensor>& tensors,
                         const std::map<std::string, std::string>& metadata);

}  // namespace graft::cli

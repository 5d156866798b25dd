// Tensors of the public interface as .npy files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "graft/graft.h"
#include "tools/common/npy.h"

namespace graft::cli {

NpyType type_of(const graft_tensor_info& info);
inline std::span<const std::int64_t> dims_of(const graft_tensor_info& info) { return {info.dims, info.rank}; }

/// npy_file_names() of all tensors that go to a folder.
using FileNames = std::map<std::string, std::string, std::less<>>;

/// The tensor's file in the folder, and a line that says so. `source`: as write_npy() has it.
Status write_array(const std::string& folder, const FileNames& files, const graft_tensor_info& info,
                   std::span<const std::byte> bytes, const std::string& source = {});

}  // namespace graft::cli

// Writing safetensors files: eight bytes with the length of a JSON header, the header, then the tensors' bytes.
#pragma once

#include <map>
#include <span>
#include <string>

#include "platform/os/file.h"
#include "tools/convert/common/export_tensor.h"

namespace graft::convert {

/// Replaces `path` atomically; tensors are made and written one after another. `metadata` becomes "__metadata__", which
/// empty is left out. unsupported: a tensor of blocks, which the format does not have.
Status write_safetensors(os::FileSystem& files, const std::string& path, std::span<const ExportTensor> tensors,
                         const std::map<std::string, std::string>& metadata);

}  // namespace graft::convert

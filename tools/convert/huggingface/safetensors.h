// safetensors files: 8 bytes of length, a JSON header of that length, then the tensors' bytes.
#pragma once

#include <span>
#include <string>

#include "platform/base/status.h"
#include "platform/os/file.h"
#include "tools/convert/common/source_tensors.h"

namespace graft::convert {

/// Adds the tensors of one file, whose bytes must outlive `out`. Tensors of types other than F32, F16 and BF16 are left
/// out and their names added to `skipped`. corrupt: anything that contradicts the format, a name that appears twice.
Status read_safetensors(std::span<const std::byte> bytes, SourceTensors& out, std::vector<std::string>& skipped);

/// The weights of a Hugging Face folder: model.safetensors, or the files that model.safetensors.index.json lists, which
/// must lie in that folder; pytorch_model.bin where there is neither.
Result<SourceTensors> open_safetensors(os::FileSystem& files, const std::string& folder,
                                       std::vector<std::string>& skipped);

}  // namespace graft::convert

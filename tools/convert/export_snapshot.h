// What a run keeps, for other programs.
#pragma once

#include <cstdint>
#include <string>

#include "platform/os/file.h"

namespace graft::convert {

struct ExportedSnapshot {
  std::uint64_t number = 0;
  std::uint64_t step = 0;
  std::size_t tensors = 0;
};

/// All tensors of a snapshot, by number or tag (empty: that which training goes on from), as a safetensors file.
/// unsupported: one of a type that the format does not have.
Result<ExportedSnapshot> export_snapshot(os::FileSystem& files, const std::string& folder, const std::string& snapshot,
                                         const std::string& output);

}  // namespace graft::convert

// Adds buffers to a TensorFlow Lite file without knowing all of its tables.
#pragma once

#include <string>
#include <vector>

#include "platform/base/status.h"

namespace graft::convert {

/// The file with buffers at the end of its list. All tables stay as they are, behind a new root table and a new list:
/// FlatBuffers refer to what lies behind alone. unsupported: a root table with fields of a later format.
Result<std::string> with_buffers(const std::string& file, const std::vector<std::string>& added);

}  // namespace graft::convert

// Tensor data beside a model file, confined to the model's folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "platform/base/status.h"

namespace graft::convert {

struct ExternalData {
  std::string location;
  std::string offset;  ///< decimal, empty = 0
  std::string length;  ///< decimal, empty = what the tensor needs
};

/// A path as a message shows it: in quotes, where those within have a backslash.
std::string quoted(const std::filesystem::path& path);

/// Reads `needed` bytes. Errors: a location outside `folder` (absolute, with "..", or through a symbolic link), an
/// offset or length that is no number, beyond the file's end or unequal to `needed`.
Result<std::string> read_external(const std::filesystem::path& folder, const ExternalData& data, std::uint64_t needed);

}  // namespace graft::convert

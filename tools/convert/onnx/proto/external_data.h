// Tensor data beside a model file, confined to the model's folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "platform/base/status.h"
#include "platform/os/file.h"

namespace graft::convert {

struct ExternalData {
  std::string location;
  std::string offset;        ///< decimal, empty = 0
  std::string length;        ///< decimal, empty = what the tensor needs
  std::string unknown = {};  ///< a key that ONNX does not define; empty without one
};

/// A path as a message shows it: in quotes, where those within have a backslash.
std::string quoted(const std::filesystem::path& path);

/// Where the bytes of a tensor lie: they are read piece after piece, so that nothing is held twice.
struct ExternalRegion {
  std::string path;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;

  /// Calls take() with all bytes in order, at most a MiB at once.
  Status read(const std::function<Status(std::span<const std::byte>)>& take) const;
};

/// Finds `needed` bytes. Errors: a location outside `folder` (absolute, with "..", or through a symbolic link), an
/// offset or length that is no number, beyond the file's end or unequal to `needed`, an unknown key.
Result<ExternalRegion> find_external(const std::filesystem::path& folder, const ExternalData& data,
                                     std::uint64_t needed);

}  // namespace graft::convert

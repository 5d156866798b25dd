// The entries of a zip archive that are stored as they are, as PyTorch writes them.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "platform/base/status.h"

namespace graft::convert {

using ZipEntries = std::map<std::string, std::span<const std::byte>, std::less<>>;

/// By name; bytes are borrowed. corrupt: no archive, or one that leads outside of itself; unsupported: compressed
/// entries.
Result<ZipEntries> read_zip_entries(std::span<const std::byte> bytes);

}  // namespace graft::convert

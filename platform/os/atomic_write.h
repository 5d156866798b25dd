// Replacing a file by contents that are made piece after piece.
#pragma once

#include <functional>
#include <string>

#include "platform/os/file.h"

namespace graft::os {

/// As atomic_write_file() of file.h, for contents that need not be in memory at once: `write` appends them to the file
/// that it is given, and its error leaves `path` as it was.
Status atomic_write_file(FileSystem& files, const std::string& path, const std::function<Status(File&)>& write);

}  // namespace graft::os

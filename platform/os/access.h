// Who may read and write what is made: checkpoints are for their owner only, and what is replaced keeps its access.
//
// A file of OpenMode::create_new has mode 600: only its owner may read and write it. One of any other mode follows the
// process's umask. Opening to write, make_directory(), lock() and follow() refuse a link that another user put into a
// sticky folder that everyone may write to, such as /tmp: the rule of Linux's protected_symlinks, also where that is
// off. Systems without modes have none of this.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "platform/os/file.h"

namespace graft::os {

/// As atomic_write_file(), but the file is always for its owner only.
Status atomic_write_private(FileSystem& files, const std::string& path,
                            std::span<const std::span<const std::byte>> parts);
/// The same of contents that are made piece after piece, as in atomic_write.h.
Status atomic_write_private(FileSystem& files, const std::string& path, const std::function<Status(File&)>& write);

/// As make_directories(). A last level that is made has mode 700.
Status make_private_directories(FileSystem& files, const std::string& path);

/// Whether a name in a folder is that of a temporary file of atomic_write_file(), of whatever path.
bool is_temporary(std::string_view name);

// Of the system's own files; a path of others names nothing here, and nothing is done.

/// Gives `to` the mode of `from`, and if the process is root its owner and group.
Status copy_access(const std::string& from, const std::string& to);
/// Mode 700.
Status make_private(const std::string& folder);

}  // namespace graft::os

// Files as a command line reads and writes them. Messages name the path and the system's reason.
#pragma once

#include <cstdint>
#include <string>

#include "tools/common/status.h"

namespace graft::cli {

/// What is in a file, of at most 64 MiB.
Result<std::string> text_of_file(const std::string& path);

/// Makes `path` hold the text, or leaves it as it was.
Status write_text(const std::string& path, const std::string& text);

/// Fails where write_text() would fail before its first byte, and removes what killed processes left of earlier writes.
Status check_writable(const std::string& path);
/// The same of writing at a file's end, which makes it where it does not exist.
Status check_appendable(const std::string& path);

/// Every missing level of a folder.
Status make_folders(const std::string& path);
/// Whether it could be made, or is there. Made on trial, so that work that fails leaves no empty folder.
Status check_folder(const std::string& path);

/// Of this process, for names of files that no other has.
std::uint64_t process_id();

}  // namespace graft::cli

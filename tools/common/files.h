// Files as a command line reads and writes them. Messages name the path and the system's reason.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

#include "tools/common/status.h"

namespace graft::cli {

inline constexpr std::uint64_t kMaxText = std::uint64_t{64} << 20;

/// What is in a regular file of at most `limit` bytes. A pipe or a device is an error: it might never end.
Result<std::string> text_of_file(const std::string& path, std::uint64_t limit = kMaxText);

/// Whether a regular file can be read and begins with these bytes.
bool begins_with(const std::string& path, std::string_view bytes);

/// Makes `path` hold the text, or leaves it as it was.
Status write_text(const std::string& path, const std::string& text);

/// Fails where write_text() would fail before its first byte, and removes what killed processes left of earlier writes.
Status check_writable(const std::string& path);
/// The same of writing at a file's end, which makes it where it does not exist.
Status check_appendable(const std::string& path);
/// A stream that writes at the end of `path`, or that empties it first. It may be a pipe or a device. Links are
/// followed as write_text() follows them.
Result<std::FILE*> open_stream(const std::string& path, bool keeps);

/// Every missing level of a folder.
Status make_folders(const std::string& path);
/// Whether it could be made, or is there. Made on trial, so that work that fails leaves no empty folder.
Status check_folder(const std::string& path);

/// `name` and `suffix`, as long as a file's name may be: a longer name is cut, and ends in a hash of the whole one.
std::string fitting_name(const std::string& name, std::string_view suffix);

/// 16 digits for the name of a file, which nobody can foretell.
Result<std::string> random_name();

}  // namespace graft::cli

// Building messages: cat("Node ", name, " has ", n, " inputs.").
#pragma once

#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace graft::cli {

/// Concatenates anything that can be streamed. For messages and names, not for hot paths.
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// "1.50 MiB"
std::string bytes_text(unsigned long long bytes);

/// Text of a file as a message shows it: what is longer than 80 bytes is cut, never within a character, and ends in
/// "...".
std::string shown(std::string_view text);

/// What stands between separators, without empty parts.
std::vector<std::string> split_text(std::string_view text, char separator);

/// Whether a name fits a pattern, in which '*' stands for any characters and '?' for one.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace graft::cli

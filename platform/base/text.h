// Building messages: cat("Node ", name, " has ", n, " inputs.").
#pragma once

#include <sstream>
#include <string>
#include <string_view>

namespace graft {

/// Concatenates anything that can be streamed. For messages and names, not for hot paths.
template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

/// "1.5 MiB (1572864 bytes)"-style sizes for messages: human unit first, exact count where it differs.
std::string bytes_text(unsigned long long bytes);

/// Whether a name fits a pattern, in which '*' stands for any characters and '?' for one.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace graft

#include "tools/common/text.h"

#include "platform/base/text.h"

namespace graft::cli {

std::string bytes_text(unsigned long long bytes) { return graft::bytes_text(bytes); }

std::string shown(std::string_view text) { return graft::shown(text); }

std::vector<std::string> split_text(std::string_view text, char separator) {
  return graft::split_text(text, separator);
}

bool matches(std::string_view pattern, std::string_view name) { return graft::matches(pattern, name); }

}  // namespace graft::cli

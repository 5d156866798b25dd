#include "platform/base/names.h"

#include <algorithm>

namespace graft {
namespace {

/// Whether the character at `at` is a backslash that takes the one after it.
bool takes_next(std::string_view text, std::size_t at) {
  return text[at] == '\\' && at + 1 < text.size() && kNameSeparators.find(text[at + 1]) != std::string_view::npos;
}

}  // namespace

std::size_t find_separator(std::string_view text, std::string_view any, std::size_t from) {
  for (std::size_t at = from; at < text.size(); ++at) {
    if (takes_next(text, at)) {
      ++at;
    } else if (any.find(text[at]) != std::string_view::npos) {
      return at;
    }
  }
  return std::string_view::npos;
}

std::size_t rfind_separator(std::string_view text, std::string_view any) {
  std::size_t last = std::string_view::npos;
  for (std::size_t at = find_separator(text, any); at != std::string_view::npos;
       at = find_separator(text, any, at + 1)) {
    last = at;
  }
  return last;
}

std::vector<std::string> split_parts(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(find_separator(text, {&separator, 1}, start), text.size());
    if (end > start) parts.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return parts;
}

std::string plain_name(std::string_view part) {
  std::string name;
  for (std::size_t at = 0; at < part.size(); ++at) {
    if (takes_next(part, at)) ++at;
    name += part[at];
  }
  return name;
}

std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names;
  for (const std::string& part : split_parts(text)) names.push_back(plain_name(part));
  return names;
}

std::string quoted_name(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (kNameSeparators.find(c) != std::string_view::npos && c != ':' && c != '+' && c != '*' && c != ';') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace graft

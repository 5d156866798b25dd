#include "runtime/text/template/marked_text.h"

#include <unordered_map>

#include "runtime/text/unicode/unicode.h"

namespace graft::text::jinja {
namespace {

bool is_start(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

/// The inverse of to_lower, for characters that have one lower case form.
const std::unordered_map<char32_t, char32_t>& upper_forms() {
  static const std::unordered_map<char32_t, char32_t> forms = [] {
    std::unordered_map<char32_t, char32_t> out;
    for (char32_t c = 0x80; c < 0x1f000; ++c) {
      if (const char32_t lower = to_lower(c); lower != c && c != 0x1e9e) out.emplace(lower, c);
    }
    return out;
  }();
  return forms;
}

template <typename Change>
MarkedText changed_characters(const MarkedText& text, Change change) {
  MarkedText out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = first_code_point(std::string_view(text.bytes).substr(at));
    std::string form;
    append_utf8(form, change(point.value, at == 0));
    out.add(form, text.marks[at]);
    at += point.size;
  }
  return out;
}

}  // namespace

std::vector<std::size_t> character_starts(std::string_view text) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_start(text[i])) out.push_back(i);
  }
  out.push_back(text.size());
  return out;
}

std::size_t count_characters(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += is_start(c) ? 1 : 0;
  return count;
}

bool is_python_space(char32_t value) { return (value >= 0x1c && value <= 0x1f) || is_white_space(value); }

namespace {

bool goes(std::string_view character, const std::string* chars) {
  if (chars == nullptr) return is_python_space(first_code_point(character).value);
  return chars->find(character) != std::string::npos;
}

}  // namespace

std::size_t space_before(std::string_view text, const std::string* chars) {
  std::size_t at = 0;
  while (at < text.size()) {
    const std::string_view character = text.substr(at, first_code_point(text.substr(at)).size);
    if (!goes(character, chars)) break;
    at += character.size();
  }
  return at;
}

std::size_t size_without_space_after(std::string_view text, const std::string* chars) {
  std::size_t end = text.size();
  while (end > 0) {
    std::size_t begin = end - 1;
    while (begin > 0 && !is_start(text[begin])) --begin;
    if (!goes(text.substr(begin, end - begin), chars)) break;
    end = begin;
  }
  return end;
}

char32_t to_upper(char32_t value) {
  if (value < 0x80) return value >= 'a' && value <= 'z' ? value - 32 : value;
  const auto found = upper_forms().find(value);
  return found == upper_forms().end() ? value : found->second;
}

MarkedText upper_case(const MarkedText& text) {
  MarkedText out;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = first_code_point(std::string_view(text.bytes).substr(at));
    std::string form;
    if (point.value == 0xdf) {
      form = "SS";  // the one letter of everyday texts whose upper case are two
    } else {
      append_utf8(form, to_upper(point.value));
    }
    out.add(form, text.marks[at]);
    at += point.size;
  }
  return out;
}

MarkedText lower_case(const MarkedText& text) {
  return changed_characters(text, [](char32_t c, bool) { return to_lower(c); });
}

MarkedText capitalized(const MarkedText& text) {
  return changed_characters(text, [](char32_t c, bool first) { return first ? to_upper(c) : to_lower(c); });
}

}  // namespace graft::text::jinja

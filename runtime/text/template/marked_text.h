// Text whose bytes remember where they come from: special tokens are read in what the template wrote, never in what it
// was given.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace graft::text::jinja {

inline constexpr char kFromTemplate = 0;
inline constexpr char kFromData = 1;
inline constexpr char kFirstReply = 2;  ///< and above: what the assistant says, one value after another
inline constexpr int kReplyMarks = 254;

/// UTF-8, and a mark for each of its bytes.
struct MarkedText {
  std::string bytes;
  std::string marks;

  std::size_t size() const { return bytes.size(); }
  bool empty() const { return bytes.empty(); }
  void add(const MarkedText& other) {
    bytes += other.bytes;
    marks += other.marks;
  }
  void add(std::string_view text, char mark = kFromTemplate) {
    bytes += text;
    marks.append(text.size(), mark);
  }
  void add(const MarkedText& other, std::size_t begin, std::size_t count) {
    bytes.append(other.bytes, begin, count);
    marks.append(other.marks, begin, count);
  }
  MarkedText part(std::size_t begin, std::size_t count = std::string::npos) const {
    return {bytes.substr(begin, count), marks.substr(begin, count)};
  }
};

inline MarkedText marked(std::string_view text, char mark = kFromTemplate) {
  return {std::string(text), std::string(text.size(), mark)};
}

/// Where each character begins, and the end.
std::vector<std::size_t> character_starts(std::string_view text);
std::size_t count_characters(std::string_view text);

/// As Python's str.isspace() says of one character.
bool is_python_space(char32_t value);
/// Bytes of white space at the start of `text`; with `chars` of any of its characters instead.
std::size_t space_before(std::string_view text, const std::string* chars = nullptr);
/// Bytes that are left when white space (or `chars`) goes from the end of `text`.
std::size_t size_without_space_after(std::string_view text, const std::string* chars = nullptr);

/// The simple upper case form of a character; itself where there is none.
char32_t to_upper(char32_t value);

MarkedText upper_case(const MarkedText& text);
MarkedText lower_case(const MarkedText& text);
/// The first character in upper case, the others in lower case.
MarkedText capitalized(const MarkedText& text);

}  // namespace graft::text::jinja

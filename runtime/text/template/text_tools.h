// What filters and methods of texts share.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/text/template/run.h"

namespace graft::text::jinja {

MarkedText stripped(const MarkedText& text, bool left, bool right, const std::string* chars = nullptr);
/// Python's str.splitlines(): without line ends, and without an empty line behind the last of them.
std::vector<MarkedText> split_lines(const MarkedText& text, bool keep_ends = false);
/// Of at most `most` replacements; below zero: all.
Value replaced(Run& run, const MarkedText& text, const MarkedText& from, const MarkedText& to, std::int64_t most);
Value joined(Run& run, const MarkedText& between, const std::vector<Value>& items);
/// Spaces (or another character) up to a width in characters.
Value padded(Run& run, const MarkedText& text, std::int64_t width, bool left, bool right, const MarkedText& fill);
/// "{}", "{0}", "{name}" of str.format().
Value braces_filled(Run& run, const MarkedText& pattern, const Arguments& arguments);

}  // namespace graft::text::jinja

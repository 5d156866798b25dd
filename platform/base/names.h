// Names within flags and options, such as "a,b=c": a backslash before a separator makes it part of a name.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace graft {

/// Characters that a backslash takes as part of a name. Before any other character a backslash is itself.
inline constexpr std::string_view kNameSeparators = ",=:;+*\\";

/// The first character of `any` at or after `from` that no backslash takes; npos without one.
std::size_t find_separator(std::string_view text, std::string_view any, std::size_t from = 0);
/// The last one.
std::size_t rfind_separator(std::string_view text, std::string_view any);
/// The parts between separators, with their backslashes and without empty ones.
std::vector<std::string> split_parts(std::string_view text, char separator = ',');
/// A part as the name that it stands for: "a\,b" is a,b.
std::string plain_name(std::string_view part);
/// Names between commas: plain_name() of each part.
std::vector<std::string> split_names(std::string_view text);
/// The name as such a list takes it.
std::string quoted_name(std::string_view name);

}  // namespace graft

// Building messages: cat("Node ", name, " has ", n, " inputs.").
#pragma once

#include <cstdarg>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace graft {

namespace detail {

/// What a part of a message is. Four bits of a word tell each, so that a place that builds one passes no more than its
/// parts, as printf's arguments: thousands of places do.
enum class Part : std::uint64_t { none, literal, string, view, character, int32, uint32, int64, uint64, real, address };

template <typename T>
constexpr Part part_of() {
  if constexpr (std::is_pointer_v<T> && std::is_void_v<std::remove_pointer_t<T>>) {
    return Part::address;
  } else if constexpr (std::is_array_v<T> || std::is_pointer_v<T>) {
    static_assert(std::is_same_v<std::remove_cv_t<std::remove_pointer_t<std::decay_t<T>>>, char>);
    return Part::literal;
  } else if constexpr (std::is_enum_v<T>) {
    static_assert(std::is_convertible_v<T, int>, "which name is meant?");
    return part_of<std::underlying_type_t<T>>();
  } else if constexpr (std::is_floating_point_v<T>) {
    static_assert(sizeof(T) <= sizeof(double));
    return Part::real;
  } else if constexpr (std::is_integral_v<T>) {
    if constexpr (sizeof(T) == 8) return std::is_signed_v<T> ? Part::int64 : Part::uint64;
    if constexpr (std::is_same_v<T, bool>) return Part::int32;
    if constexpr (sizeof(T) == 1) return Part::character;
    return std::is_signed_v<T> || sizeof(T) < sizeof(int) ? Part::int32 : Part::uint32;
  } else if constexpr (std::is_same_v<T, std::string>) {
    return Part::string;
  } else {
    static_assert(std::is_same_v<T, std::string_view>);
    return Part::view;
  }
}

template <typename... Parts>
constexpr std::uint64_t parts_of() {
  static_assert(sizeof...(Parts) <= 16, "join some of them first");
  std::uint64_t kinds = 0;
  unsigned shift = 0;
  ((kinds |= static_cast<std::uint64_t>(part_of<Parts>()) << shift, shift += 4), ...);
  return kinds;
}

/// As C passes it behind an ellipsis: strings by their address, which holds until the call is over.
template <typename T>
[[gnu::always_inline]] inline auto passed(const T& part) {
  if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>) {
    return &part;
  } else if constexpr (std::is_array_v<T>) {
    return static_cast<const char*>(part);
  } else {
    return part;
  }
}

/// `kinds` is parts_of() the rest.
std::string cat_parts(std::uint64_t kinds, ...);  // NOLINT(cert-dcl50-cpp)
std::string cat_list(std::uint64_t kinds, std::va_list parts);

}  // namespace detail

/// Concatenates strings, characters and numbers, as std::ostream writes them. For messages and names, not for hot
/// paths.
template <typename... Parts>
[[gnu::always_inline]] inline std::string cat(const Parts&... parts) {
  return detail::cat_parts(detail::parts_of<Parts...>(), detail::passed(parts)...);
}

/// "1.5 MiB (1572864 bytes)"-style sizes for messages: human unit first, exact count where it differs.
std::string bytes_text(unsigned long long bytes);

/// Text of a file as a message shows it: what is longer than 80 bytes is cut, never within a character, and ends in
/// "...".
std::string shown(std::string_view text);

/// What stands between separators, without empty parts.
std::vector<std::string> split_text(std::string_view text, char separator);

/// Whether a name fits a pattern, in which '*' stands for any characters and '?' for one.
bool matches(std::string_view pattern, std::string_view name);

}  // namespace graft

// Where exceptions end: graft throws none, but the standard library does where there is no memory. The one place that
// knows whether a build has them (GRAFT_EXCEPTIONS); without, what would be thrown ends the process.
#pragma once

#include <new>

namespace graft {

enum class Thrown : unsigned char { bad_alloc, other };

#if defined(__cpp_exceptions)
inline constexpr bool kHasExceptions = true;

/// What body() returns, or, where it throws, what failed(Thrown) does, which runs while the exception is handled.
template <typename Body, typename Failed>
auto catching(Body&& body, Failed&& failed) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return failed(Thrown::bad_alloc);
  } catch (...) {
    return failed(Thrown::other);
  }
}

/// What body() returns, or `otherwise` where there is no memory for it.
template <typename Body, typename T>
auto or_without_memory(T otherwise, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return otherwise;
  }
}
#else
inline constexpr bool kHasExceptions = false;

template <typename Body, typename Failed>
auto catching(Body&& body, Failed&&) -> decltype(body()) {
  return body();
}
template <typename Body, typename T>
auto or_without_memory(T, Body&& body) -> decltype(body()) {
  return body();
}
#endif

}  // namespace graft

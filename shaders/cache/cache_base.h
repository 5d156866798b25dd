// Caches that forget hold the keys that a window still sees, and begin anew every kCacheStride tokens. Shared by GLSL
// and C++. How far a text went before this run is the step state's `step`, which nothing else asks for in decoding.
#ifdef __cplusplus
#pragma once
#include <algorithm>
#include <cstdint>
namespace graft {
#define CACHE_NUMBER std::uint32_t
#define CACHE_FUNCTION inline std::uint32_t
inline constexpr std::uint32_t kCacheStride = 128;  // a multiple of the keys that any kernel takes at once
#else
#define CACHE_NUMBER uint
#define CACHE_FUNCTION uint
const uint kCacheStride = 128u;
#endif
// The first place that a cache holds which went as far as `furthest`: all that a query sees there, behind, or up to
// kCacheStride places before, so that a text whose end changes need not begin anew.
CACHE_FUNCTION cache_base(CACHE_NUMBER furthest, CACHE_NUMBER window) {
  return furthest + 1u < window + kCacheStride ? 0u
                                               : (furthest + 1u - window - kCacheStride) / kCacheStride * kCacheStride;
}
#ifdef __cplusplus
// Places that runs of so many tokens need.
inline std::uint64_t cache_places(std::uint64_t window, std::uint64_t tokens) {
  return (window + tokens + 2 * kCacheStride - 2 + kCacheStride - 1) / kCacheStride * kCacheStride;
}
}  // namespace graft
#endif
#undef CACHE_NUMBER
#undef CACHE_FUNCTION

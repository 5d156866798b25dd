// What caches of keys and values hold of a text, and how it was computed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "shaders/cache/cache_base.h"

namespace graft {

/// Tokens that one run appended.
struct CachedRun {
  std::uint32_t tokens;
  bool single;  ///< by the program for one token
};

/// Only the first `tokens` of a text count from now on.
inline void cut_runs(std::vector<CachedRun>& runs, std::size_t tokens) {
  for (CachedRun& run : runs) {
    run.tokens = static_cast<std::uint32_t>(std::min<std::size_t>(run.tokens, tokens));
    tokens -= run.tokens;
  }
  std::erase_if(runs, [](const CachedRun& run) { return run.tokens == 0; });
}

/// Whether caches that forget, which went as far as `furthest`, still hold what a query behind so many tokens sees.
inline bool holds_what_is_seen(std::span<const std::uint32_t> windows, std::uint32_t furthest, std::size_t tokens) {
  return std::ranges::all_of(windows, [&](std::uint32_t window) {
    return cache_base(furthest, window) + std::size_t{window} <= std::max<std::size_t>(tokens + 1, window);
  });
}

}  // namespace graft

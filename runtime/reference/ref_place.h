// Where an item of a batch stands: as shaders/cache/places.glsl.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "runtime/reference/ref_context.h"

namespace graft {

struct RefPlace {
  std::size_t slot = 0;
  std::uint32_t furthest = 0;
  std::uint32_t position = 0;
};

/// By the step state, or by `places` where the node has that input; caches are input `cache`.
inline RefPlace ref_place(const RefContext& c, std::size_t places, std::size_t item, std::size_t cache = 0) {
  if (!c.has(places)) return {item, c.step_state().step, c.step_state().position};
  const auto word = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<std::int64_t>(c.in(places)[4 * item + i]));
  };
  const auto slots = static_cast<std::size_t>(c.in_dims(cache)[0]);
  return {std::min<std::size_t>(word(0), slots - 1), word(1), word(3)};
}

}  // namespace graft

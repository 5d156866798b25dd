// Where query 0 of an item stands among the keys. After the step state.
#include "shaders/cache/cache_base.h"
#include "shaders/cache/places.glsl"
int first_query(uint item) {
  if (p.from_step == 0u) return p.offset;
  const uint position = place_position(item);
  const uint base = p.from_step == 1u ? 0u : cache_base(max(place_furthest(item), position), uint(p.window));
  return int(position) - int(base);
}

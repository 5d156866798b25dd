// What a cache still needs moves to its beginning, where the run begins to fill it anew (cache_base.h). An invocation
// moves the words that take each other's places, one after the other.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/cache/cache_move_push.h"
#include "shaders/cache/cache_base.h"
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"

layout(binding = 0) readonly buffer State { uint state_words[]; };
#include "shaders/cache/places.glsl"
layout(binding = 1) buffer Cache { uint cache[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.stride * p.batch) return;
  const uint item = i / p.stride;
  const uint before = cache_base(place_furthest(item), p.window);
  const uint now = cache_base(max(place_furthest(item), place_position(item)), p.window);
  const uint by = (now - before) / kCacheStride;
  if (by == 0u || by >= p.links) return;
  const uint at = place_slot(item) * p.stride * p.links + i % p.stride;
  for (uint link = 0u; link + by < p.links; ++link) cache[at + link * p.stride] = cache[at + (link + by) * p.stride];
}

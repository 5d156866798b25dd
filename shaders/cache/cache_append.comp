// Rows of x take their places in the cache, from their place on; those past its end are dropped.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/cache/cache_append_push.h"
#include "shaders/cache/cache_base.h"
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"

layout(binding = 0) readonly buffer State { uint state_words[]; };
#include "shaders/cache/places.glsl"
layout(binding = 1) writeonly buffer Cache { uint cache[]; };
layout(binding = 2) readonly buffer X { uint x[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const uint token = i / p.row % p.tokens;
  const uint item = i / p.row / p.tokens;
  const uint first = place_position(item);
  const uint base = p.window == 0u ? 0u : cache_base(max(place_furthest(item), first), p.window);
  if (first < base) return;
  const uint position = first - base;
  // Not position + token < capacity, which could wrap around.
  if (position >= p.capacity || token >= p.capacity - position) return;
  cache[(place_slot(item) * p.capacity + position + token) * p.row + i % p.row] = x[i];
}

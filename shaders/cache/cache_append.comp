// Rows of x take their places in the cache, from the step state's position on; those past its end are dropped.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/cache/cache_append_push.h"
#include "shaders/common/step_state.h"
#include "shaders/cache/cache_base.h"
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"

layout(binding = 0) readonly buffer State { StepState state; };
layout(binding = 1) writeonly buffer Cache { uint cache[]; };
layout(binding = 2) readonly buffer X { uint x[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const uint token = i / p.row % p.tokens;
  const uint item = i / p.row / p.tokens;
  const uint base = p.window == 0u ? 0u : cache_base(max(state.step, state.position), p.window);
  if (state.position < base) return;
  const uint position = state.position - base;
  // Not position + token < capacity, which could wrap around.
  if (position >= p.capacity || token >= p.capacity - position) return;
  cache[(item * p.capacity + position + token) * p.row + i % p.row] = x[i];
}

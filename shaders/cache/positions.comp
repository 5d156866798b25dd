// Each element is its index along the last axis, and with places what its item begins at on top.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/cache/positions_push.h"
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"

layout(constant_id = 0) const bool FROM_STEP = false;  // they count from the step state's position

layout(binding = 0) readonly buffer State { uint state_words[]; };
#include "shaders/cache/places.glsl"
layout(binding = 1) writeonly buffer Y { uint y[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const uint from = FROM_STEP ? place_position(i / p.sequence) : 0u;
  y[i] = i % p.sequence + (p.slots != 0u && from == 0xffffffffu ? 0u : from);
}

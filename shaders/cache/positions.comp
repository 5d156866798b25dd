// Each element is its index along the last axis.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/cache/positions_push.h"
#include "shaders/common/step_state.h"
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"

layout(constant_id = 0) const bool FROM_STEP = false;  // they count from the step state's position

layout(binding = 0) readonly buffer State { StepState state; };
layout(binding = 1) writeonly buffer Y { uint y[]; };

void main() {
  const uint i = flat_invocation();
  if (i < p.count) y[i] = i % p.sequence + (FROM_STEP ? state.position : 0u);
}

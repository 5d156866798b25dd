//! variant f32 : -DSTORE_F32
// y = x * scale where kept, else 0. With x = dy it is its own gradient, because the mask is a function of the counter
// (element / 4, micro step, step) and the key (seed, stream) alone.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/common/rng.glsl"
#include "shaders/common/step_state.h"
#include "shaders/dropout/dropout_push.h"
layout(local_size_x = 128) in;
#include "shaders/common/flat.glsl"
layout(binding = 0) readonly buffer State { StepState state; };
layout(binding = 1) readonly buffer X1 { float x1[]; };
layout(binding = 1) readonly buffer X4 { vec4 x4[]; };
layout(binding = 2) writeonly buffer Y1 { float y1[]; };
layout(binding = 2) writeonly buffer Y4 { vec4 y4[]; };

uvec4 random_words(uint block) {
  return philox(uvec4(p.first / 4 + block, state.micro_step, state.step, 0), uvec2(state.seed, p.stream));
}

void vector(uint i) {
  bvec4 kept = greaterThanEqual(random_words(i), uvec4(p.threshold));
  y4[i] = mix(vec4(0), x4[i] * p.scale, kept);
}
void single(uint i) { y1[i] = random_words(i / 4)[i % 4] >= p.threshold ? x1[i] * p.scale : 0.0; }

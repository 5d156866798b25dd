//! variant f32 :
// y = offset + factor * random number, which is a function of the counter (element / 4, micro step, step) and the key
// (seed, stream) alone: uniform in [0, 1), or normal by the transform of Box and Muller, two and two.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/common/rng.glsl"
#include "shaders/common/step_state.h"
#include "shaders/random/random_push.h"
layout(local_size_x = 128) in;
layout(constant_id = 0) const bool NORMAL = false;
#include "shaders/common/flat.glsl"
layout(binding = 0) readonly buffer State { StepState state; };
layout(binding = 1) writeonly buffer Y1 { float y1[]; };
layout(binding = 1) writeonly buffer Y4 { vec4 y4[]; };

vec4 numbers(uint block) {
  const uvec4 words =
      philox(uvec4(p.first / 4 + block, state.micro_step, state.step, 0), uvec2(state.seed, p.stream)) >> 8;
  vec4 unit = vec4(words) * (1.0 / 16777216.0);
  if (NORMAL) {
    // 1 - u is in (0, 1].
    const vec2 radius = sqrt(-2.0 * log(vec2(1.0) - unit.xz));
    const vec2 angle = 6.283185307179586 * unit.yw;
    unit = vec4(radius.x * cos(angle.x), radius.x * sin(angle.x), radius.y * cos(angle.y), radius.y * sin(angle.y));
  }
  return p.offset + p.factor * unit;
}

void vector(uint i) { y4[i] = numbers(i); }
void single(uint i) { y1[i] = numbers(i / 4)[i % 4]; }

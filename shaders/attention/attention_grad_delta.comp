// Beside the forward pass's logarithm of sums, the sum of dy * o over each head, which the softmax's gradient subtracts:
// both in one buffer, because some devices bind eight at most.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/attention/attention_grad_delta_push.h"
#include "shaders/common/rows.glsl"

layout(binding = 0) readonly buffer O { float o[]; };
layout(binding = 0) readonly buffer OQuads { vec4 o_quads[]; };
layout(binding = 1) readonly buffer Dy { float dy[]; };
layout(binding = 1) readonly buffer DyQuads { vec4 dy_quads[]; };
layout(binding = 2) readonly buffer Lse { float lse[]; };
layout(binding = 3) writeonly buffer Statistics { vec2 statistics[]; };

void main() {
  const bool real = row_is_real();
  const uint end = real ? p.columns : 0u;
  const uint base = real ? row_start() : 0u;
  vec4 sums = vec4(0.0);
  for (uint c = row_first(); c < end; c += ROW_STEP) {
    ROW_LOAD(v, o, base, c, end, 0.0)
    ROW_LOAD(g, dy, base, c, end, 0.0)
    sums += v * g;
  }
  const float total = row_sum(sum_of(sums));
  if (real && row_slice() == 0u) statistics[row_index()] = vec2(lse[row_index()], total);
}

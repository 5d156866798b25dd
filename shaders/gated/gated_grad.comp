//! variant f32 :
// dgate = dy * up * activation'(gate) and dup = dy * activation(gate), which is computed anew rather than kept.
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/gated/gated.glsl"
layout(binding = 2) readonly buffer Dy1 { float dy1[]; };
layout(binding = 2) readonly buffer Dy4 { vec4 dy4[]; };
layout(binding = 3) writeonly buffer Dgate1 { float dgate1[]; };
layout(binding = 3) writeonly buffer Dgate4 { vec4 dgate4[]; };
layout(binding = 4) writeonly buffer Dup1 { float dup1[]; };
layout(binding = 4) writeonly buffer Dup4 { vec4 dup4[]; };

float slope(float x) {
  return ACTIVATION == 0 ? silu_slope(x) : ACTIVATION == 1 ? gelu_slope(x) : gelu_tanh_slope(x);
}

void vector(uint i) {
  const vec4 dy = dy4[i];
  const vec4 up = up4[i];
  const vec4 gate = gate4[i];
  vec4 value;
  vec4 slopes;
  for (uint k = 0; k < 4; ++k) {
    value[k] = activation(gate[k]);
    slopes[k] = slope(gate[k]);
  }
  dgate4[i] = dy * up * slopes;
  dup4[i] = dy * value;
}
void single(uint i) {
  const float dy = dy1[i];
  const float gate = gate1[i];
  const float up = up1[i];
  dgate1[i] = dy * up * slope(gate);
  dup1[i] = dy * activation(gate);
}

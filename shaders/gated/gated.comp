//! variant f32 :
// y = activation(gate) * up.
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/gated/gated.glsl"
layout(binding = 2) writeonly buffer Y1 { float y1[]; };
layout(binding = 2) writeonly buffer Y4 { vec4 y4[]; };

void vector(uint i) {
  vec4 gate = gate4[i];
  for (uint k = 0; k < 4; ++k) gate[k] = activation(gate[k]);
  y4[i] = gate * up4[i];
}
void single(uint i) { y1[i] = activation(gate1[i]) * up1[i]; }

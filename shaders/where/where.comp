//! variant w32 :
// y = cond != 0 ? a : b with broadcasting; words of any type.
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/strided.glsl"
layout(binding = 0) readonly buffer C1 { uint c1[]; };
layout(binding = 0) readonly buffer C4 { uvec4 c4[]; };
layout(binding = 1) readonly buffer A1 { uint a1[]; };
layout(binding = 1) readonly buffer A4 { uvec4 a4[]; };
layout(binding = 2) readonly buffer B1 { uint b1[]; };
layout(binding = 2) readonly buffer B4 { uvec4 b4[]; };
layout(binding = 3) writeonly buffer Y1 { uint y1[]; };
layout(binding = 3) writeonly buffer Y4 { uvec4 y4[]; };

void vector(uint i, uvec3 at) {
  uvec4 c;
  uvec4 a;
  uvec4 b;
  if ((SPLAT & 1u) != 0) {
    c = uvec4(c1[at.x]);
  } else {
    c = c4[at.x];
  }
  if ((SPLAT & 2u) != 0) {
    a = uvec4(a1[at.y]);
  } else {
    a = a4[at.y];
  }
  if ((SPLAT & 4u) != 0) {
    b = uvec4(b1[at.z]);
  } else {
    b = b4[at.z];
  }
  y4[i] = mix(b, a, notEqual(c, uvec4(0)));
}
void single(uint i, uvec3 at) { y1[i] = c1[at.x] != 0 ? a1[at.y] : b1[at.z]; }

// Picks single elements along an axis; an index out of range gives the word `miss` and reads nothing.
//! variant w32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/elements/gather_elements_push.h"

layout(std430, set = 0, binding = 0) readonly buffer Data { uint data[]; };
layout(std430, set = 0, binding = 1) readonly buffer Indices { int indices[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Y { uint y[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const uint row = i / p.inner;
  const uint column = i - row * p.inner;
  const uint outer = row / p.picks;
  int index = indices[p.index_inner == 1u ? row : i];
  if (index < 0) index += int(p.axis_size);
  const bool inside = index >= 0 && index < int(p.axis_size);
  y[i] = inside ? data[(outer * p.axis_size + uint(index)) * p.inner + column] : p.miss;
}

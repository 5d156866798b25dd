// Picks slices by index; an index out of range gives the word `miss` and reads nothing.
//! variant w32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/gather/gather_push.h"

layout(std430, set = 0, binding = 0) readonly buffer Data { uint data[]; };
layout(std430, set = 0, binding = 1) readonly buffer Indices { int indices[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Y { uint y[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const uint row = i / p.inner;
  const uint outer = row / p.index_count;
  int index = indices[row - outer * p.index_count];
  if (index < 0) index += int(p.axis_size);
  const bool inside = index >= 0 && index < int(p.axis_size);
  y[i] = inside ? data[(outer * p.axis_size + uint(index)) * p.inner + (i - row * p.inner)] : p.miss;
}

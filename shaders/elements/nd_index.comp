// Tuples of indices as numbers of rows; a tuple out of range becomes the smallest integer, which is no row.
//! variant i32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/elements/nd_index_push.h"

layout(std430, set = 0, binding = 0) readonly buffer Indices { int indices[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Y { int y[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  bool inside = true;
  uint row = 0u;
  for (uint k = 0u; k < p.size; ++k) {
    int index = indices[i * p.size + k];
    if (index < 0) index += int(p.dims[k]);
    inside = inside && index >= 0 && index < int(p.dims[k]);
    row = row * p.dims[k] + uint(index);
  }
  y[i] = inside ? int(i / p.tuples * p.rows + row) : int(0x80000000u);
}

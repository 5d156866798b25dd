// Rows of a table that may be quantized, picked by index, four neighbours an invocation. A table larger than a binding
// comes in parts: each writes the rows that it has, and the first one also not-a-number for indices out of range.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/gather/gather_weight_push.h"

layout(std430, set = 0, binding = 0) readonly buffer W { uint w[]; };
layout(std430, set = 0, binding = 1) readonly buffer Indices { int indices[]; };
layout(std430, set = 0, binding = 2) buffer Y { float y[]; };
#include "shaders/common/quantized.glsl"

void main() {
  const uint i = flat_invocation();
  const uint row = i / p.quads;
  if (row >= p.index_count) return;
  const uint column = 4 * (i - row * p.quads);
  const uint left = p.columns - column;
  int index = indices[row];
  if (index < 0) index += int(p.all_rows);
  const bool inside = index >= 0 && index < int(p.all_rows);
  if (!inside && p.first != 0u) return;
  if (inside && (uint(index) < p.first || uint(index) - p.first >= p.rows)) return;
  vec4 x = vec4(uintBitsToFloat(0x7fc00000u));
  if (inside) x = weight4((uint(index) - p.first) * p.columns + column, left);
  for (uint q = 0; q < min(left, 4u); ++q) y[row * p.columns + column + q] = x[q];
}

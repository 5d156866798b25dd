// The gradient of gather from sorted buckets of indices (gather_sort): an element of dx adds up, in order, what was
// taken from it.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/gather/gather_sorted_sum_push.h"

layout(std430, set = 0, binding = 0) readonly buffer Ends { uint ends[]; };
layout(std430, set = 0, binding = 1) readonly buffer Order { uint order[]; };
layout(std430, set = 0, binding = 2) readonly buffer Dy { float dy[]; };
layout(std430, set = 0, binding = 3) writeonly buffer Dx { float dx[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const uint slice = i / p.inner;
  const uint outer = slice / p.rows, row = slice - outer * p.rows;
  const uint from = outer * p.index_count * p.inner + (i - slice * p.inner);
  const uint last = ends[row];
  float sum = 0.0;
  for (uint k = row == 0u ? 0u : ends[row - 1u]; k < last; ++k) sum += dy[from + order[k] * p.inner];
  dx[i] = sum;
}

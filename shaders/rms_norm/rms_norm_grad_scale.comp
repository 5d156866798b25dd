// Sums over the rows of a chunk, by column, in a fixed order: first of dy * x * rstd, then of those sums themselves.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/rms_norm/rms_norm_grad_scale_push.h"

layout(constant_id = 0) const bool PRODUCT = true;  // else dy holds what is to be added up

layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer Rstd { float rstd[]; };
layout(binding = 2) readonly buffer Dy { float dy[]; };
layout(binding = 3) writeonly buffer Sums { float sums[]; };

const uint kColumns = 32u;
const uint kLanes = 4u;  // invocations that share a column
shared float lanes[128];

void main() {
  const uint chunk = flat_workgroup() / p.column_tiles;
  if (chunk >= p.chunks) return;
  const uint lane = gl_LocalInvocationIndex / kColumns;
  const uint col = (flat_workgroup() % p.column_tiles) * kColumns + gl_LocalInvocationIndex % kColumns;
  const uint end = min(p.rows, (chunk + 1u) * p.chunk_rows);
  float total = 0.0;
  for (uint row = chunk * p.chunk_rows + lane; row < end && col < p.columns; row += kLanes) {
    const uint at = row * p.columns + col;
    total += PRODUCT ? dy[at] * (x[at] * rstd[row]) : dy[at];
  }
  lanes[gl_LocalInvocationIndex] = total;
  barrier();
  if (lane != 0u || col >= p.columns) return;
  for (uint other = 1u; other < kLanes; ++other) total += lanes[gl_LocalInvocationIndex + other * kColumns];
  sums[chunk * p.columns + col] = total;
}

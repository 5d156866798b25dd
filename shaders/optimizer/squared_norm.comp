// The sum of the squares of a tensor in a fixed order: partial sums by workgroup, then their sum. Or, in the same way,
// how many elements are infinite or no numbers, told by their bits.
//! variant f32 :
//! variant f32_table : -DTABLE -DTABLE_BINDING=2
//! variant f32_total : -DTOTAL
//! variant f32_overflow : -DOVERFLOW
//! variant f32_overflow_table : -DOVERFLOW -DTABLE -DTABLE_BINDING=2
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/optimizer/squared_norm_push.h"
#include "shaders/common/table.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Sum { float sum[]; };

shared float lanes[128];

#ifdef TOTAL
float term(uint i) { return x[i]; }
#elif defined(OVERFLOW)
float term(uint i) { return (floatBitsToUint(x[BASE(0) + i]) & 0x7f800000u) == 0x7f800000u ? 1.0 : 0.0; }
#else
float term(uint i) { return x[BASE(0) + i] * x[BASE(0) + i]; }
#endif

void main() {
  const uint lane = gl_LocalInvocationIndex;
#ifdef TOTAL
  const uint group = 0u;
  const uint begin = 0u;
  const uint end = p.count;
#else
  if (!find_tensor()) return;  // the whole workgroup
  const uint group = tensor_workgroup();
  if (group >= p.groups) return;  // the whole workgroup
  const uint begin = group * p.per_group;
  const uint end = min(begin + p.per_group, p.count);
#endif
  // Runs of 32 terms are summed on their own first: the error grows with the number of runs, not of terms.
  float total = 0.0;
  uint i = begin + lane;
  while (i < end) {
    float run = 0.0;
    for (uint n = 0u; n < 32u && i < end; ++n, i += 128u) run += term(i);
    total += run;
  }
  lanes[lane] = total;
  barrier();
  for (uint half_count = 64u; half_count > 0u; half_count >>= 1) {
    if (lane < half_count) lanes[lane] += lanes[lane + half_count];
    barrier();
  }
  if (lane == 0u) sum[BASE(1) + group] = lanes[0];
#ifndef TOTAL
  if (group == 0u) {
    for (uint slot = p.groups + lane; slot < p.slots; slot += 128u) sum[BASE(1) + slot] = 0.0;
  }
#endif
}

// The sum of the squares of a tensor in a fixed order: partial sums by invocation, then their sum. Or, in the same way,
// how many elements are infinite or no numbers, told by their bits.
//! variant f32 :
//! variant f32_table : -DTABLE -DTABLE_BINDING=2
//! variant f32_total : -DTOTAL
//! variant f32_overflow : -DOVERFLOW
//! variant f32_overflow_table : -DOVERFLOW -DTABLE -DTABLE_BINDING=2
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;  // kTotalsInvocations
#include "shaders/optimizer/totals.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Sum { float sum[]; };

#ifdef TOTAL
shared float lanes[128];
#else
layout(std430, set = 0, binding = 0) readonly buffer Vectors { vec4 x4[]; };

const uint kAtOnce = 8u;  // which are summed on their own: the error grows with the number of such runs, not of terms

#ifdef OVERFLOW
float term(float value) { return (floatBitsToUint(value) & 0x7f800000u) == 0x7f800000u ? 1.0 : 0.0; }
#else
float term(float value) { return value * value; }
#endif

float terms(uint vector) {
  const vec4 values = x4[BASE4(0) + vector];
  return (term(values.x) + term(values.y)) + (term(values.z) + term(values.w));
}
#endif

void main() {
  const uint lane = gl_LocalInvocationIndex;
  float total = 0.0;
#ifdef TOTAL
  for (uint i = lane; i < p.count;) {
    float run = 0.0;
    for (uint n = 0u; n < 32u && i < p.count; ++n, i += 128u) run += x[i];
    total += run;
  }
  lanes[lane] = total;
  barrier();
  for (uint half_count = 64u; half_count > 0u; half_count >>= 1) {
    if (lane < half_count) lanes[lane] += lanes[lane + half_count];
    barrier();
  }
  if (lane == 0u) sum[0] = lanes[0];
#else
  if (!find_tensor()) return;
  const uint group = tensor_workgroup();
  if (group >= p.groups) return;
  const Walk walk = walk_of(group, lane);
  uint i = walk.first;
  for (; i + (kAtOnce - 1u) * kRow < walk.end; i += kAtOnce * kRow) {
    float run = 0.0;
    for (uint k = 0u; k < kAtOnce; ++k) run += terms(i + k * kRow);
    total += run;
  }
  for (; i < walk.end; i += kRow) total += terms(i);
  if (walk.rest < walk.rest_end) total += term(x[BASE(0) + walk.rest]);
  sum[BASE(1) + group * kInvocations + lane] = total;
#endif
}

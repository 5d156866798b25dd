// 64 bits that tell whether tensors have the same bits: each word is mixed with its place by invertible steps to two
// words, and these are summed. Sums of integers do not depend on their order. A change of one word always shows; other
// changes stay hidden with a chance of about 2^-64. Not meant against a forger.
//! variant f32 :
//! variant f32_table : -DTABLE -DTABLE_BINDING=2
//! variant f32_total : -DTOTAL
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;  // kHashInvocations
#include "shaders/optimizer/state_hash_push.h"
#include "shaders/common/table.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { uint x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Sum { uint sum[]; };

#ifdef TOTAL
shared uvec2 lanes[128];
#else
const uint kAtOnce = 8u;

uvec2 term(uint i, uint value) {
  const uint key = p.key + i * 0x9E3779B1u;
  uint word = (value ^ key) * 0xC2B2AE3Du;
  word ^= word >> 15;
  uint first = word * 0x27D4EB2Fu;
  first ^= first >> 13;
  uint second = (word + key) * 0x165667B1u;
  second ^= second >> 16;
  return uvec2(first, second);
}
#endif

void main() {
  const uint lane = gl_LocalInvocationIndex;
  uvec2 total = uvec2(0u);
#ifdef TOTAL
  for (uint i = lane; i < p.count; i += 128u) total += uvec2(x[2u * i], x[2u * i + 1u]);
  lanes[lane] = total;
  barrier();
  for (uint half_count = 64u; half_count > 0u; half_count >>= 1) {
    if (lane < half_count) lanes[lane] += lanes[lane + half_count];
    barrier();
  }
  if (lane == 0u) {
    sum[0] = lanes[0].x;
    sum[1] = lanes[0].y;
  }
#else
  // Every invocation has a sum of its own, and several terms a turn: on CPU devices both a kernel with a barrier and a
  // turn of a loop cost more than the terms.
  if (!find_tensor()) return;
  const uint group = tensor_workgroup();
  if (group >= p.groups) return;
  const uint base = BASE(0);
  const uint end = min((group + 1u) * p.per_group, p.count);
  uint i = group * p.per_group + lane;
  for (; i + (kAtOnce - 1u) * 128u < end; i += kAtOnce * 128u) {
    for (uint k = 0u; k < kAtOnce; ++k) total += term(i + k * 128u, x[base + i + k * 128u]);
  }
  for (; i < end; i += 128u) total += term(i, x[base + i]);
  const uint place = BASE(1) + 2u * (group * 128u + lane);
  sum[place] = total.x;
  sum[place + 1u] = total.y;
#endif
}

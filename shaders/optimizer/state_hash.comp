// 64 bits that tell whether tensors have the same bits: each word is mixed with its place by invertible steps to two
// words, and these are summed. Sums of integers do not depend on their order. A change of one word always shows; other
// changes stay hidden with a chance of about 2^-64. Not meant against a forger.
//! variant f32 :
//! variant f32_table : -DTABLE -DTABLE_BINDING=2
//! variant f32_total : -DTOTAL
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/optimizer/state_hash_push.h"
#include "shaders/common/table.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { uint x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Sum { uint sum[]; };

shared uvec2 lanes[128];

#ifdef TOTAL
uvec2 term(uint i) { return uvec2(x[2u * i], x[2u * i + 1u]); }
#else
uvec2 term(uint i) {
  const uint key = p.key + i * 0x9E3779B1u;
  uint word = (x[BASE(0) + i] ^ key) * 0xC2B2AE3Du;
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
  uvec2 total = uvec2(0u);
  for (uint i = begin + lane; i < end; i += 128u) total += term(i);
  lanes[lane] = total;
  barrier();
  for (uint half_count = 64u; half_count > 0u; half_count >>= 1) {
    if (lane < half_count) lanes[lane] += lanes[lane + half_count];
    barrier();
  }
  if (lane == 0u) {
    sum[BASE(1) + 2u * group] = lanes[0].x;
    sum[BASE(1) + 2u * group + 1u] = lanes[0].y;
  }
#ifndef TOTAL
  if (group == 0u) {
    for (uint word = 2u * p.groups + lane; word < 2u * p.slots; word += 128u) sum[BASE(1) + word] = 0u;
  }
#endif
}

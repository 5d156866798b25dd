// 64 bits that tell whether tensors have the same bits: each word is mixed with its place by invertible steps to two
// words, and these are summed. Sums of integers do not depend on their order. A change of one word always shows; other
// changes stay hidden with a chance of about 2^-64. Not meant against a forger.
//! variant f32 :
//! variant f32_table : -DTABLE -DTABLE_BINDING=2
//! variant f32_total : -DTOTAL
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;  // kTotalsInvocations
#include "shaders/optimizer/totals.glsl"

layout(std430, set = 0, binding = 0) readonly buffer X { uint x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Sum { uint sum[]; };

#ifdef TOTAL
shared uvec2 lanes[128];
#else
layout(std430, set = 0, binding = 0) readonly buffer Vectors { uvec4 x4[]; };

const uint kAtOnce = 4u;

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

uvec2 terms(uint vector) {
  const uvec4 words = x4[BASE4(0) + vector];
  const uint i = 4u * vector;
  return term(i, words.x) + term(i + 1u, words.y) + term(i + 2u, words.z) + term(i + 3u, words.w);
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
  if (!find_tensor()) return;
  const uint group = tensor_workgroup();
  if (group >= p.groups) return;
  const Walk walk = walk_of(group, lane);
  uint i = walk.first;
  for (; i + (kAtOnce - 1u) * kRow < walk.end; i += kAtOnce * kRow) {
    for (uint k = 0u; k < kAtOnce; ++k) total += terms(i + k * kRow);
  }
  for (; i < walk.end; i += kRow) total += terms(i);
  if (walk.rest < walk.rest_end) total += term(walk.rest, x[BASE(0) + walk.rest]);
  const uint place = BASE(1) + 2u * (group * kInvocations + lane);
  sum[place] = total.x;
  sum[place + 1u] = total.y;
#endif
}

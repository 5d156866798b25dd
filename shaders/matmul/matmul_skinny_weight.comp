//! variant f32 :
//! variant f32_dot8 : -DDOT8
//! variant f32_plain : -DPLAIN
//! variant f32_shuffle : -DSHUFFLE
//! variant f32_plain_shuffle : -DPLAIN -DSHUFFLE
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef DOT8
#extension GL_EXT_spirv_intrinsics : require
#endif
#ifdef SHUFFLE
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
// C = A W^T (+ bias) for few rows of A and a quantized W (plain: one of f32): runs of 32 of a row of W are unpacked
// once for all rows of A.
// kAlong invocations share kSpan rows of W, by turns along k, and add up their sums in a fixed order; with one of them,
// A is the same for all invocations, and nothing is to be added. dot8: A has been rounded to 8 bits by quantize_rows,
// and products are of four integers at a time. shuffle: the workgroup is one subgroup and kAlong 1; its lanes load a run
// of A once, each a part, and hand it round, where a load costs as much whether its lanes load the same or not.
layout(constant_id = 0) const uint kThreads = 64;
layout(constant_id = 1) const uint kRows = 1;   // of A
layout(constant_id = 2) const uint kAlong = 64;  // a divisor of kThreads
layout(constant_id = 3) const uint kSpan = 1;
layout(constant_id = 5) const bool kPairs = false;  // a row has an even number of runs
layout(constant_id = 6) const bool kFours = false;  // shuffle: W ends with a whole vector of four words; q8_0 or q4_0
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
#include "shaders/common/index.glsl"
#include "shaders/matmul/matmul_skinny_weight_push.h"

#ifdef DOT8
layout(std430, binding = 0) readonly buffer A { uint a[]; };  // of each run its scale, then eight words of codes
#else
layout(std430, binding = 0) readonly buffer A { vec4 a[]; };
#endif
#ifdef PLAIN
layout(std430, binding = 1) readonly buffer W { vec4 w[]; };
#else
layout(std430, binding = 1) readonly buffer W { uint w[]; };
#ifdef SHUFFLE
layout(std430, binding = 1) readonly buffer WVectors { uvec4 w4[]; };
#endif
#endif
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };  // any buffer without bias
layout(std430, binding = 3) writeonly buffer Out { float c[]; };
#ifndef PLAIN
#include "shaders/common/quantized.glsl"
#endif

#ifdef DOT8
// OpSDot of SPV_KHR_integer_dot_product on packed operands.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int dot_packed(uint a, uint b, spirv_literal int packed_format);
#endif

const uint kSums = kRows * kSpan;
const uint kRunWords = 9;  // of A in 8 bits
const uint kLineWords = 16;
shared float parts[kAlong == 1 ? 1 : kSums * kThreads];

#ifdef PLAIN
vec4 numbers[8];
const float scale = 1.0;

void unpack(uint pair, bool second) {
  [[unroll]] for (uint q = 0; q < 8; ++q) numbers[q] = w[(pair * 2 + (second ? 1 : 0)) * 8 + q];
}
#else
// A run of 32 as codes of a byte each, to be multiplied by `scale`; of other formats as numbers.
uint codes[8];
vec4 numbers[8];
float scale;

#ifdef SHUFFLE
// The words of a pair of runs. It begins at any word, and what a load costs hardly depends on its width: whole vectors
// are loaded, and their words moved up to three places down.
uint pair_words[20];

void load_pair(uint first) {
  const uint vectors = kFormat == kQ8_0 ? 5 : 3;
  const uint at = first / 4;
  const uint last = p.last_word / 4;
  [[unroll]] for (uint v = 0; v < vectors; ++v) {
    const uvec4 four = w4[min(at + v, last)];
    [[unroll]] for (uint i = 0; i < 4; ++i) pair_words[4 * v + i] = four[i];
  }
  const bool by_one = (first & 1) != 0;
  const bool by_two = (first & 2) != 0;
  [[unroll]] for (uint i = 0; i < 4 * vectors - 1; ++i) pair_words[i] = by_one ? pair_words[i + 1] : pair_words[i];
  [[unroll]] for (uint i = 0; i < 4 * vectors - 3; ++i) pair_words[i] = by_two ? pair_words[i + 2] : pair_words[i];
}
#endif

// The first or second run of a pair of runs, which begins at a whole word; of a pair the first before the second.
void unpack(uint pair, bool second) {
  if (kFormat != kQ8_0 && kFormat != kQ4_0) {
    const uint e = (pair * 2 + (second ? 1 : 0)) * 32;
    [[unroll]] for (uint q = 0; q < 8; ++q) numbers[q] = weight4(e + 4 * q, 4);
    scale = 1.0;
    return;
  }
  const bool bytes = kFormat == kQ8_0;
  const uint words = bytes ? 8 : 4;
  const uint first = pair * (bytes ? 17 : 9);
  const uint offset = second ? words : 0;
#ifdef SHUFFLE
  if (kFours && !second) load_pair(first);
#define PAIR_WORD(i) (kFours ? pair_words[i] : w[first + (i)])
#else
#define PAIR_WORD(i) w[first + (i)]
#endif
  uint word = PAIR_WORD(offset);
  scale = unpackHalf2x16(second ? word >> 16 : word).x;
  [[unroll]] for (uint i = 0; i < words; ++i) {
    const uint next = PAIR_WORD(offset + i + 1);
    const uint four = second ? next : (word >> 16) | (next << 16);
    word = next;
    if (bytes) {
      codes[i] = four;
    } else {  // code - 8 in each byte, without borrowing from its neighbour
      codes[i] = (((four & 0x0f0f0f0fu) | 0x80808080u) - 0x08080808u) ^ 0x80808080u;
      codes[i + 4] = ((((four >> 4) & 0x0f0f0f0fu) | 0x80808080u) - 0x08080808u) ^ 0x80808080u;
    }
  }
#ifndef DOT8
  [[unroll]] for (uint q = 0; q < 8; ++q) numbers[q] = signed_bytes(codes[q]);
#endif
}
#endif

#ifdef SHUFFLE
const uint kHeld = (8 + kThreads - 1) / kThreads;
const uint kPart = kRows * kHeld;
vec4 held[2 * kPart];  // two runs of each row of A; of each a lane has every kThreads-th vector

void hold(uint m0, uint run, uint which) {
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint at = (min(m0 + r, p.rows - 1) * p.k + run * 32) / 4;
    [[unroll]] for (uint h = 0; h < kHeld; ++h) {
      held[which * kPart + r * kHeld + h] = a[at + (h * kThreads + gl_SubgroupInvocationID) % 8];
    }
  }
}
#endif

// The product of the run that was unpacked with run `run` of row m0 + r of A; shuffle: with the one held as `which`.
float product(uint m0, uint r, uint run, uint which) {
#ifdef SHUFFLE
  vec4 sums = vec4(0.0);
  [[unroll]] for (uint q = 0; q < 8; ++q) {
    sums += numbers[q] * subgroupShuffle(held[which * kPart + r * kHeld + q / kThreads], q % kThreads);
  }
  return scale * ((sums.x + sums.y) + (sums.z + sums.w));
#else
  const uint row = min(m0 + r, p.rows - 1);
#ifdef DOT8
  const uint at = (row * (p.k / 32) + run) * kRunWords;
  int sum = 0;
  [[unroll]] for (uint q = 0; q < 8; ++q) sum += dot_packed(codes[q], a[at + 1 + q], 0);
  return scale * uintBitsToFloat(a[at]) * float(sum);
#else
  const uint at = (row * p.k + run * 32) / 4;
  float sum = 0.0;
  [[unroll]] for (uint q = 0; q < 8; ++q) sum += dot(numbers[q], a[at + q]);
  return scale * sum;
#endif
#endif
}

uint touch_rows(uint first_row) {
  uint any = 0;
#ifndef PLAIN
  // Reads a word of every cache line of the rows that this workgroup takes, in their order in memory: a core then waits
  // for many lines at a time, where its lanes, each in a row of its own, would ask for one after the other.
  const uint first = first_row * p.row_bytes / 4;
  for (uint line = gl_LocalInvocationIndex; line < p.lines; line += kThreads) {
    any |= w[min(first + line * kLineWords, p.last_word)];
  }
#endif
  return any & p.zero;
}

#ifdef SHUFFLE
#define HOLD(m0, run, which) hold(m0, run, which);
#else
#define HOLD(m0, run, which)
#endif

void main() {
  const uint group = flat_workgroup();
  if (group >= p.groups) return;  // the whole workgroup
  const uint along = gl_LocalInvocationIndex % kAlong;
  const uint across = gl_LocalInvocationIndex / kAlong;
  const uint kAcross = kThreads / kAlong;
  const uint m0 = group / p.groups_n * kRows;
  const uint n0 = group % p.groups_n * (kAcross * kSpan) + across;
  const uint runs = p.k / 32;
  const uint none = kAlong == 1 ? touch_rows(n0 - across) : 0;
  float acc[kSums];
  [[unroll]] for (uint i = 0; i < kSums; ++i) acc[i] = 0.0;
  if (kPairs) {
    for (uint pair = along; pair < runs / 2; pair += kAlong) {
      HOLD(m0, 2 * pair, 0)
      HOLD(m0, 2 * pair + 1, 1)
      [[unroll]] for (uint j = 0; j < kSpan; ++j) {
        [[unroll]] for (uint which = 0; which < 2; ++which) {
          unpack(min(n0 + j * kAcross, p.n - 1) * (runs / 2) + pair, which == 1);
          [[unroll]] for (uint r = 0; r < kRows; ++r) acc[j * kRows + r] += product(m0, r, 2 * pair + which, which);
        }
      }
    }
  } else {
    for (uint run = along; run < runs; run += kAlong) {
      HOLD(m0, run, 0)
      [[unroll]] for (uint j = 0; j < kSpan; ++j) {
        const uint at = min(n0 + j * kAcross, p.n - 1) * runs + run;
        unpack(at >> 1, (at & 1) != 0);
        [[unroll]] for (uint r = 0; r < kRows; ++r) acc[j * kRows + r] += product(m0, r, run, 0);
      }
    }
  }
  if (kAlong > 1) {
    [[unroll]] for (uint i = 0; i < kSums; ++i) parts[i * kThreads + gl_LocalInvocationIndex] = acc[i];
    for (uint left = kAlong / 2; left > 0; left /= 2) {
      barrier();
      if (along < left) {
        [[unroll]] for (uint i = 0; i < kSums; ++i) {
          parts[i * kThreads + gl_LocalInvocationIndex] += parts[i * kThreads + gl_LocalInvocationIndex + left];
        }
      }
    }
    if (along != 0) return;
    [[unroll]] for (uint i = 0; i < kSums; ++i) acc[i] = parts[i * kThreads + gl_LocalInvocationIndex];
  }
  [[unroll]] for (uint j = 0; j < kSpan; ++j) {
    const uint n = n0 + j * kAcross;
    if (n + none >= p.n) continue;
    const float start = p.has_bias != 0 ? bias[p.first + n] : 0.0;
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      if (m0 + r < p.rows) c[(m0 + r) * p.out_stride + p.first + n] = acc[j * kRows + r] + start;
    }
  }
}

//! variant f32 :
//! variant f32_shuffle : -DGEMM_SHUFFLE
//! variant f32_apart : -DGEMM_APART
//! variant f32_epilogue : -DEPILOGUE=4
//! requires coopmat
//! variant f32_coopmat : -DGEMM_COOPMAT
//! requires coopmat bfloat16
//! variant f32_coopmat_bf16 : -DGEMM_COOPMAT -DMATRIX_BF16
//! requires coopmat coopmat2
//! variant f32_flexible : -DGEMM_COOPMAT -DGEMM_FLEXIBLE
//! requires coopmat coopmat2 bfloat16
//! variant f32_flexible_bf16 : -DGEMM_COOPMAT -DGEMM_FLEXIBLE -DMATRIX_BF16
//! requires coopmat
//! variant f32_coopmat_epilogue : -DGEMM_COOPMAT -DEPILOGUE=4
//! requires coopmat bfloat16
//! variant f32_coopmat_bf16_epilogue : -DGEMM_COOPMAT -DEPILOGUE=4 -DMATRIX_BF16
#version 450
#extension GL_GOOGLE_include_directive : require
// dx = the gradient of conv by x (also transposed convolution, then with bias). Implicit GEMM per group and *phase*:
// input rows that agree modulo the stride are reached by the same taps, so a stride of s costs no s-fold of zeros.
// m = input pixel of the phase, n = input channel, k = (tap that reaches the phase, output channel). kCells: strides of 2
// and a kernel of 1x1, which reaches one phase alone; its rows store the three pixels of the others beside their own, too.
#include "shaders/conv/conv_push.h"

layout(std430, binding = 0) readonly buffer DY { float dy[]; };
layout(std430, binding = 0) readonly buffer DYVectors { vec4 dy4[]; };
layout(std430, binding = 1) readonly buffer Weight { float weight[]; };
layout(std430, binding = 1) readonly buffer WeightVectors { vec4 weight4[]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };  // any buffer without bias
layout(std430, binding = 2) readonly buffer BiasVectors { vec4 bias4[]; };
layout(std430, binding = 3) writeonly buffer DX { float dx[]; };
layout(std430, binding = 3) writeonly buffer DXVectors { vec4 dx4[]; };

struct Row { uint image; int oh; int ow; };  // output position that the phase's first tap reads, maybe outside
struct Col { uint base; };
struct Ptr { uint base; bool inside; };
#define GEMM_SKIPS_OUTSIDE
#ifdef GEMM_SHUFFLE
#define GEMM_DEAR_ROWS
#define GEMM_TOUCHES
#endif
#define GEMM_VECTORS
#define GEMM_STORES_FOURS
#include "shaders/common/gemm.glsl"
#include "shaders/fused_elementwise/epilogue.glsl"

#if defined(GEMM_SHUFFLE) || defined(GEMM_APART)
layout(constant_id = 4) const bool kCells = false;  // no epilogue
#else
const bool kCells = false;
#endif

uint group = 0;
uvec2 phase = uvec2(0);
uvec2 first_tap = uvec2(0);
uvec2 taps = uvec2(0);

// The first tap in [0, step) that reaches rows of this phase, or `step` when none does.
uint find_tap(uint offset, uint dilation, uint stride, uint tap_step) {
  uint tap = 0;
  while (tap < tap_step && (offset + tap * (stride - dilation % stride)) % stride != 0) ++tap;
  return tap;
}

uvec3 position(uint m) {
  const uint columns = (p.w + p.stride_w - 1) / p.stride_w;
  const uint rows = (p.h + p.stride_h - 1) / p.stride_h;
  const uint line = m / columns;
  const uint image = line / rows;
  return uvec3(image, (line - image * rows) * p.stride_h + phase.x, (m - line * columns) * p.stride_w + phase.y);
}

Row a_row(uint m) {
  const uvec3 at = position(m);
  Row row;
  row.image = at.x * p.oh;
  row.oh = (int(at.y + p.pad_h) - int(first_tap.x * p.dilation_h)) / int(p.stride_h);
  row.ow = (int(at.z + p.pad_w) - int(first_tap.y * p.dilation_w)) / int(p.stride_w);
  if (m >= p.m) row.oh = -1;  // later taps only lessen it
  return row;
}

Ptr a_at(Row row, uint t) {
  const uint r = t / taps.y;
  const uint s = t - r * taps.y;
  const int oh = row.oh - int(r * (p.tap_step_h * p.dilation_h / p.stride_h));
  const int ow = row.ow - int(s * (p.tap_step_w * p.dilation_w / p.stride_w));
  const bool inside = uint(oh) < p.oh && uint(ow) < p.ow;
  return Ptr(inside ? ((row.image + uint(oh)) * p.ow + uint(ow)) * p.o + group * p.group_o : 0u, inside);
}

float a_load(Ptr ptr, uint c) {
  const float value = dy[ptr.base + c];
  return ptr.inside ? value : 0.0;
}

vec4 a_load4(Ptr ptr, uint c) {
  const vec4 value = dy4[(ptr.base + c) / 4];
  return ptr.inside ? value : vec4(0.0);
}

Col b_col(uint n) { return Col(group * p.group_o * p.kh * p.kw * p.group_c + min(n, last_column())); }
Ptr b_at(Col col, uint t) {
  const uint i = t / taps.y;
  const uint r = first_tap.x + i * p.tap_step_h;
  const uint s = first_tap.y + (t - i * taps.y) * p.tap_step_w;
  return Ptr(col.base + (r * p.kw + s) * p.group_c, true);
}
float b_load(Ptr ptr, uint c) { return weight[ptr.base + c * (p.kh * p.kw * p.group_c)]; }
vec4 b_load4(Ptr ptr, uint c) { return weight4[(ptr.base + c * (p.kh * p.kw * p.group_c)) / 4]; }

uint out_row(uint m) {
  const uvec3 at = position(m);
  return at.y < p.h && at.z < p.w ? ((at.x * p.h + at.y) * p.w + at.z) * p.c + group * p.group_c : kNowhere;
}
void out_store(uint address, uint n, float value) {
  const float start = p.has_bias != 0 ? bias[group * p.group_c + n] : 0.0;
  if (p.has_bias != 0) value += start;
  dx[address] = finished(value, address, group * p.group_c + n);
  if (kCells) {
    const uint below = address + p.w * p.c;
    dx[address + p.c] = start;
    dx[below] = start;
    dx[below + p.c] = start;
  }
}
void out_store4(uint address, uint n, vec4 value) {
  const vec4 start = p.has_bias != 0 ? bias4[(group * p.group_c + n) / 4] : vec4(0.0);
  if (p.has_bias != 0) value += start;
  dx4[address / 4] = finished4(value, address, group * p.group_c + n);
  if (kCells) {
    const uint below = address + p.w * p.c;
    dx4[(address + p.c) / 4] = start;
    dx4[below / 4] = start;
    dx4[(below + p.c) / 4] = start;
  }
}

void main() {
  const Place place = gemm_place();
  if (!place.valid) return;
  uint rest = place.batch;
  if (!kCells) {
    phase.y = rest % p.stride_w;
    rest /= p.stride_w;
    phase.x = rest % p.stride_h;
    rest /= p.stride_h;
  }
  group = rest;
  first_tap.x = find_tap(phase.x + p.pad_h, p.dilation_h, p.stride_h, p.tap_step_h);
  first_tap.y = find_tap(phase.y + p.pad_w, p.dilation_w, p.stride_w, p.tap_step_w);
  taps.x = first_tap.x < min(p.kh, p.tap_step_h) ? (p.kh - first_tap.x + p.tap_step_h - 1) / p.tap_step_h : 0;
  taps.y = first_tap.y < min(p.kw, p.tap_step_w) ? (p.kw - first_tap.y + p.tap_step_w - 1) / p.tap_step_w : 0;
  const uint k = taps.x * taps.y * p.group_o;
  const uint k_begin = min(k, place.split * p.k_per_split);
  gemm_tile(place, k_begin, min(k, k_begin + p.k_per_split));
}

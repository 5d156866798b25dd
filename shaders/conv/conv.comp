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
// y = conv(x, weight) (+ bias), implicit GEMM per group: m = output pixel, n = output channel, k = (tap, input channel).
#include "shaders/conv/conv_push.h"

layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 0) readonly buffer XVectors { vec4 x4[]; };
layout(std430, binding = 1) readonly buffer Weight { float weight[]; };
layout(std430, binding = 1) readonly buffer WeightVectors { vec4 weight4[]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };  // any buffer without bias
layout(std430, binding = 2) readonly buffer BiasVectors { vec4 bias4[]; };
layout(std430, binding = 3) writeonly buffer Y { float y[]; };
layout(std430, binding = 3) writeonly buffer YVectors { vec4 y4[]; };

struct Row { uint base; int h; int w; };  // input position of tap (0, 0), which may lie outside the image
struct Col { uint base; };
struct Ptr { uint base; bool inside; };
#define GEMM_VECTORS
#define GEMM_STORES_FOURS
#include "shaders/common/gemm.glsl"
#include "shaders/fused_elementwise/epilogue.glsl"

uint group = 0;

Row a_row(uint m) {
  const uint line = m / p.ow;
  const uint image = line / p.oh;
  Row row;
  row.h = int((line - image * p.oh) * p.stride_h) - int(p.pad_h);
  row.w = int((m - line * p.ow) * p.stride_w) - int(p.pad_w);
  row.base = uint((int(image * p.h) + row.h) * int(p.w) + row.w) * p.c + group * p.group_c;
  if (m >= p.m) row.h = -0x40000000;
  return row;
}

Ptr a_at(Row row, uint t) {
  const uint r = t / p.kw;
  const uint dh = r * p.dilation_h;
  const uint dw = (t - r * p.kw) * p.dilation_w;
  const bool inside = uint(row.h + int(dh)) < p.h && uint(row.w + int(dw)) < p.w;
  return Ptr(inside ? row.base + (dh * p.w + dw) * p.c : 0u, inside);
}

float a_load(Ptr ptr, uint c) {
  const float value = x[ptr.base + c];
  return ptr.inside ? value : 0.0;
}

vec4 a_load4(Ptr ptr, uint c) {
  const vec4 value = x4[(ptr.base + c) / 4];
  return ptr.inside ? value : vec4(0.0);
}

Col b_col(uint n) { return Col((group * p.group_o + min(n, p.n - 1)) * p.k); }
Ptr b_at(Col col, uint t) { return Ptr(col.base + t * p.group_c, true); }
float b_load(Ptr ptr, uint c) { return weight[ptr.base + c]; }
vec4 b_load4(Ptr ptr, uint c) { return weight4[(ptr.base + c) / 4]; }

uint out_row(uint m) { return m * p.o + group * p.group_o; }
void out_store(uint address, uint n, float value) {
  if (p.has_bias != 0) value += bias[group * p.group_o + n];
  y[address] = finished(value, address, group * p.group_o + n);
}
void out_store4(uint address, uint n, vec4 value) {
  if (p.has_bias != 0) value += bias4[(group * p.group_o + n) / 4];
  y4[address / 4] = finished4(value, address, group * p.group_o + n);
}

void main() {
  const Place place = gemm_place();
  if (!place.valid) return;
  group = place.batch;
  const uint k_begin = place.split * p.k_per_split;
  gemm_tile(place, k_begin, min(p.k, k_begin + p.k_per_split));
}

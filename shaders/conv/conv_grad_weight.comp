//! variant f32 :
//! variant f32_shuffle : -DGEMM_SHUFFLE
//! variant f32_apart : -DGEMM_APART
//! requires coopmat
//! variant f32_coopmat : -DGEMM_COOPMAT
//! requires coopmat bfloat16
//! variant f32_coopmat_bf16 : -DGEMM_COOPMAT -DMATRIX_BF16
//! requires coopmat coopmat2
//! variant f32_flexible : -DGEMM_COOPMAT -DGEMM_FLEXIBLE
//! requires coopmat coopmat2 bfloat16
//! variant f32_flexible_bf16 : -DGEMM_COOPMAT -DGEMM_FLEXIBLE -DMATRIX_BF16
#version 450
#extension GL_GOOGLE_include_directive : require
// dw = the gradient of conv by the weight, implicit GEMM per group: m = output channel, n = (tap, input channel),
// k = (line of the output, column) or (image, pixel); long, so it is split and the parts are added by matmul_split_sum.
#include "shaders/conv/conv_grad_weight_push.h"

layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 0) readonly buffer XVectors { vec4 x4[]; };
layout(std430, binding = 1) readonly buffer DY { float dy[]; };
layout(std430, binding = 1) readonly buffer DYVectors { vec4 dy4[]; };
layout(std430, binding = 2) writeonly buffer DW { float dw[]; };
layout(std430, binding = 2) writeonly buffer DWVectors { vec4 dw4[]; };

struct Row { uint base; };
struct Col { int h; int w; uint c; };  // input position for output pixel (0, 0), maybe outside; channel
struct Ptr { uint base; int h; int w; };
#define GEMM_VECTORS
#define GEMM_STORES_FOURS
#include "shaders/common/gemm.glsl"

#if defined(GEMM_SHUFFLE) || defined(GEMM_APART)
layout(constant_id = 4) const bool kWholeImages = false;  // an outer step is all pixels of an image, not of a line
#else
const bool kWholeImages = false;
#endif

uint group = 0;

Row a_row(uint m) { return Row(group * p.group_o + min(m, last_row())); }
Ptr a_at(Row row, uint t) { return Ptr(t * (kWholeImages ? p.oh : 1) * p.ow * p.o + row.base, 0, 0); }
float a_load(Ptr ptr, uint c) { return dy[ptr.base + c * p.o]; }
vec4 a_load4(Ptr ptr, uint c) { return dy4[(ptr.base + c * p.o) / 4]; }

Col b_col(uint n) {
  const uint tap = min(n, last_column()) / p.group_c;
  const uint r = tap / p.kw;
  Col col;
  col.h = int(r * p.dilation_h) - int(p.pad_h);
  col.w = int((tap - r * p.kw) * p.dilation_w) - int(p.pad_w);
  col.c = group * p.group_c + min(n, last_column()) - tap * p.group_c;
  return col;
}

Ptr b_at(Col col, uint t) {
  const uint line = t * (kWholeImages ? p.oh : 1);
  const uint image = line / p.oh;
  const int h = int((line - image * p.oh) * p.stride_h) + col.h;
  Ptr ptr;
  ptr.h = h;
  ptr.w = kWholeImages || uint(h) < p.h ? col.w : 0x40000000;  // a line outside has every column outside
  ptr.base = uint((int(image * p.h) + h) * int(p.w) + col.w) * p.c + col.c;
  return ptr;
}

// Where pixel c of an outer step reads, or kNowhere.
uint b_address(Ptr ptr, uint c) {
  if (kWholeImages) {
    // A product instead of a division, of which CPUs do one lane at a time: the host sees to it that half a pixel makes
    // good for its roundings.
    const uint line = uint((float(c) + 0.5) * p.lines_per_pixel);
    const uint dh = line * p.stride_h;
    const uint dw = (c - line * p.ow) * p.stride_w;
    const bool inside = uint(ptr.h + int(dh)) < p.h && uint(ptr.w + int(dw)) < p.w;
    return inside ? ptr.base + (dh * p.w + dw) * p.c : kNowhere;
  }
  const bool inside = uint(ptr.w + int(c * p.stride_w)) < p.w;
  return inside ? ptr.base + c * (p.stride_w * p.c) : kNowhere;
}

float b_load(Ptr ptr, uint c) {
  const uint address = b_address(ptr, c);
  const bool inside = address != kNowhere;
  const float value = x[inside ? address : 0u];
  return inside ? value : 0.0;
}

vec4 b_load4(Ptr ptr, uint c) {
  const uint address = b_address(ptr, c);
  const bool inside = address != kNowhere;
  const vec4 value = x4[inside ? address / 4 : 0u];
  return inside ? value : vec4(0.0);
}

uint out_row(uint m) { return (group * p.group_o + m) * p.n; }
void out_store(uint address, uint n, float value) { dw[address] = value; }
void out_store4(uint address, uint n, vec4 value) { dw4[address / 4] = value; }

void main() {
  const Place place = gemm_place();
  if (!place.valid) return;
  group = place.batch;
  const uint k_begin = place.split * p.k_per_split;
  gemm_tile(place, k_begin, min(p.k, k_begin + p.k_per_split));
}

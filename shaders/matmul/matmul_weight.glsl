// What matmul_rows.comp and matmul_columns.comp share: buffers, rows of A, rows of C.
#include "shaders/matmul/matmul_weight_push.h"

layout(std430, binding = 0) readonly buffer A { float a[]; };
layout(std430, binding = 0) readonly buffer AVectors { vec4 a4[]; };
layout(std430, binding = 1) readonly buffer W { uint w[]; };
layout(std430, binding = 1) readonly buffer WVectors { uvec4 w4[]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };  // [columns], or as C; any buffer without bias
layout(std430, binding = 2) readonly buffer BiasVectors { vec4 bias4[]; };
layout(std430, binding = 3) buffer Out { float c[]; };
layout(std430, binding = 3) buffer OutVectors { vec4 c4[]; };
layout(std430, binding = 4) readonly buffer Limit { uint limit[]; };  // any buffer where nothing is limited

struct Row { uint base; };
struct Col { uint base; };
struct Ptr { uint base; };
#if defined(GEMM_SHUFFLE) || defined(GEMM_APART)
#define GEMM_VECTORS
#define GEMM_STORES_FOURS
#else
#ifdef WEIGHT_BY_ROWS
#define GEMM_QUADS
#else
#define GEMM_QUAD_COLUMNS
#endif
#ifndef GEMM_COOPMAT
#define GEMM_VECTOR_ROWS
#define GEMM_STORES_FOURS
#endif
#endif
#include "shaders/common/gemm.glsl"
#include "shaders/common/quantized.glsl"

uint rows() { return p.limited != 0 ? min(p.m, limit[0]) : p.m; }

const uint kMapA = 2;
const uint kMapC = 4;

// Rows of W are columns of C in one kernel, columns of A in the other.
#ifdef WEIGHT_BY_ROWS
uint a_first() { return 0; }
uint c_first() { return p.first; }
#else
uint a_first() { return p.first; }
uint c_first() { return 0; }
#endif

Row a_row(uint m) {
  uint row = min(m, rows() - 1);
  if ((p.limited & kMapA) != 0) row = limit[1 + row];
  return Row(row * p.a_stride + a_first());
}
Ptr a_at(Row row, uint t) { return Ptr(row.base + t * p.inner); }
float a_load(Ptr ptr, uint c_index) { return a[ptr.base + c_index]; }
#if defined(GEMM_VECTORS) || defined(GEMM_VECTOR_ROWS)
vec4 a_load4(Ptr ptr, uint c_index) { return a4[(ptr.base + c_index) / 4]; }
#endif
#ifdef GEMM_VECTORS
/// Elements e .. e + 3 of W, which stand in one row; e is a multiple of 4.
vec4 whole_four(uint e) { return kFormat == 0 ? uintBitsToFloat(w4[e / 4]) : weight4(e, 4); }
#endif
uint out_row(uint m) {
  if (m >= rows()) return kNowhere;
  return ((p.limited & kMapC) != 0 ? limit[1 + m] : m) * p.out_stride + c_first();
}
void out_store(uint address, uint n, float value) {
  value *= p.alpha;
  if (p.has_bias != 0) value += bias[p.bias_is_base != 0 ? address : c_first() + n];
  if (p.accumulate != 0) value += c[address];
  c[address] = value;
}
#ifdef GEMM_STORES_FOURS
void out_store4(uint address, uint n, vec4 value) {
  value *= p.alpha;
  if (p.has_bias != 0) value += bias4[(p.bias_is_base != 0 ? address : c_first() + n) / 4];
  if (p.accumulate != 0) value += c4[address / 4];
  c4[address / 4] = value;
}
#endif

void main() {
  const Place place = gemm_place();
  if (!place.valid || place.m0 >= rows()) return;
  const uint k_begin = place.split * p.k_per_split;
  gemm_tile(place, k_begin, min(p.k, k_begin + p.k_per_split));
}

// One step of a program of elementwise functions. `code` is a constant where it is called:
// rounded << 16 | kind << 8 | fn, as in fused_fn.h.
#ifndef GRAFT_FUSED_APPLY_GLSL
#define GRAFT_FUSED_APPLY_GLSL
#include "shaders/binary/binary_apply.glsl"
#include "shaders/fused_elementwise/fused_fn.h"
#include "shaders/common/round16.glsl"
#include "shaders/unary/unary_apply.glsl"

float fused_rounded(uint kept, float y) {
  switch (kept) {
    case fused_to_f16: return round_f16(y);
    case fused_to_bf16: return round_bf16(y);
  }
  return y;
}

float fused_exact(uint code, float a, float b, float alpha, float beta) {
  const uint fn = code & 255u;
  switch (code >> 8 & 255u) {
    case fused_unary: return unary_apply(fn, a, alpha, beta);
    case fused_binary: return binary_apply(fn, a, b);
    case fused_slope: return b * unary_slope(fn, a, alpha, beta);
  }
  return a;
}

float fused_apply(uint code, float a, float b, float alpha, float beta) {
  return fused_rounded(code >> 16, fused_exact(code, a, b, alpha, beta));
}

#endif

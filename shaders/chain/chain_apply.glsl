// One step of a chain of elementwise functions. `code` is a constant where it is called:
// rounded << 16 | kind << 8 | fn, as in chain_fn.h.
#ifndef GRAFT_CHAIN_APPLY_GLSL
#define GRAFT_CHAIN_APPLY_GLSL
#include "shaders/binary/binary_apply.glsl"
#include "shaders/chain/chain_fn.h"
#include "shaders/common/round16.glsl"
#include "shaders/unary/unary_apply.glsl"

float chain_rounded(uint kept, float y) {
  switch (kept) {
    case chain_to_f16: return round_f16(y);
    case chain_to_bf16: return round_bf16(y);
  }
  return y;
}

float chain_exact(uint code, float a, float b, float alpha, float beta) {
  const uint fn = code & 255u;
  switch (code >> 8 & 255u) {
    case chain_unary: return unary_apply(fn, a, alpha, beta);
    case chain_binary: return binary_apply(fn, a, b);
    case chain_slope: return b * unary_slope(fn, a, alpha, beta);
  }
  return a;
}

float chain_apply(uint code, float a, float b, float alpha, float beta) {
  return chain_rounded(code >> 16, chain_exact(code, a, b, alpha, beta));
}

#endif

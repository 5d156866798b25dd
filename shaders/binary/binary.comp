//! variant f32 : -DSTORE_F32
//! variant i32 : -DSTORE_I32
// y = fn(a, b) with broadcasting. Words in, words out: results may be floats, integers or booleans.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/binary/binary_apply.glsl"
layout(local_size_x = 128) in;
layout(constant_id = 0) const uint FN = 0;
#include "shaders/common/strided.glsl"
layout(binding = 0) readonly buffer A1 { uint a1[]; };
layout(binding = 0) readonly buffer A4 { uvec4 a4[]; };
layout(binding = 1) readonly buffer B1 { uint b1[]; };
layout(binding = 1) readonly buffer B4 { uvec4 b4[]; };
layout(binding = 2) writeonly buffer Y1 { uint y1[]; };
layout(binding = 2) writeonly buffer Y4 { uvec4 y4[]; };

bool compare_float(float a, float b) {
  if (is_nan(a) || is_nan(b)) return FN == fn_not_equal;
  switch (FN) {
    case fn_equal: return a == b;
    case fn_not_equal: return a != b;
    case fn_less: return a < b;
    case fn_less_equal: return a <= b;
    case fn_greater: return a > b;
    case fn_greater_equal: return a >= b;
  }
  return false;
}

int int_pow(int a, int b) {
  if (b < 0) return a == 1 ? 1 : (a == -1 ? ((b & 1) == 0 ? 1 : -1) : 0);
  int y = 1;
  for (int square = a; b != 0; b >>= 1, square *= square) {
    if ((b & 1) != 0) y *= square;
  }
  return y;
}

// GLSL leaves division and remainder of negative integers undefined: magnitudes are unsigned, signs follow.
uint magnitude(int x) { return x < 0 ? 0u - uint(x) : uint(x); }
int int_div(int a, int b) {
  if (b == 0) return 0;
  int q = int(magnitude(a) / magnitude(b));
  return (a < 0) != (b < 0) ? -q : q;
}
int int_mod(int a, int b) {
  if (b == 0) return 0;
  int r = int(magnitude(a) % magnitude(b));
  r = a < 0 ? -r : r;
  return FN == fn_floor_mod && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int apply_int(int a, int b) {
  switch (FN) {
    case fn_add: return a + b;
    case fn_sub: return a - b;
    case fn_mul: return a * b;
    case fn_div: return int_div(a, b);
    case fn_pow: return int_pow(a, b);
    case fn_maximum: return max(a, b);
    case fn_minimum: return min(a, b);
    case fn_floor_mod:
    case fn_trunc_mod: return int_mod(a, b);
    case fn_prelu: return a < 0 ? a * b : a;
    case fn_equal: return int(a == b);
    case fn_not_equal: return int(a != b);
    case fn_less: return int(a < b);
    case fn_less_equal: return int(a <= b);
    case fn_greater: return int(a > b);
    case fn_greater_equal: return int(a >= b);
    case fn_logical_and: return int(a != 0 && b != 0);
    case fn_logical_or: return int(a != 0 || b != 0);
    case fn_logical_xor: return int((a != 0) != (b != 0));
    case fn_bitwise_and: return a & b;
    case fn_bitwise_or: return a | b;
    case fn_bitwise_xor: return a ^ b;
    case fn_shift_left: return (b & 31) == b ? a << b : 0;
    case fn_shift_right: return (b & 31) == b ? a >> b : (a < 0 ? -1 : 0);
  }
  return a;
}

uint apply(uint a, uint b) {
#ifdef STORE_I32
  return uint(apply_int(int(a), int(b)));
#else
  if (FN >= fn_equal) return compare_float(uintBitsToFloat(a), uintBitsToFloat(b)) ? 1u : 0u;
  return floatBitsToUint(binary_apply(FN, uintBitsToFloat(a), uintBitsToFloat(b)));
#endif
}

void vector(uint i, uvec3 at) {
  uvec4 a;
  uvec4 b;
  if ((SPLAT & 1u) != 0) {
    a = uvec4(a1[at.x]);
  } else {
    a = a4[at.x];
  }
  if ((SPLAT & 2u) != 0) {
    b = uvec4(b1[at.y]);
  } else {
    b = b4[at.y];
  }
  uvec4 y;  // one call, for the reason told in unary.comp
  for (uint k = 0; k < 4; ++k) y[k] = apply(a[k], b[k]);
  y4[i] = y;
}
void single(uint i, uvec3 at) { y1[i] = apply(a1[at.x], b1[at.y]); }

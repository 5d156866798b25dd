// Not-a-number and infinity by bits: drivers may assume that neither occurs, and then fold x != x to false.
#ifndef GRAFT_NAN_GLSL
#define GRAFT_NAN_GLSL

bool is_nan_bits(uint bits) { return (bits & 0x7fffffffu) > 0x7f800000u; }
bool is_nan(float x) { return is_nan_bits(floatBitsToUint(x)); }
bool is_inf(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }
bool is_finite(float x) { return (floatBitsToUint(x) & 0x7fffffffu) < 0x7f800000u; }

float nan() { return uintBitsToFloat(0x7fc00000u); }
float inf() { return uintBitsToFloat(0x7f800000u); }

// Larger and smaller of two; not a number as soon as one of them is.
float max_nan(float a, float b) { return is_nan(a) ? a : (is_nan(b) ? b : max(a, b)); }
float min_nan(float a, float b) { return is_nan(a) ? a : (is_nan(b) ? b : min(a, b)); }

#endif

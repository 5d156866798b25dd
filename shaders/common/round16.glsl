// Numbers as they come back from memory that keeps them in 16 bits: to the nearest, ties to even, overflow to infinity.
// By bits, like the stores that low_precision_kernel() makes, so that a number that is not stored gets the same bits.
#ifndef GRAFT_ROUND16_GLSL
#define GRAFT_ROUND16_GLSL

float round_f16(float x) {
  const uint bits = floatBitsToUint(x);
  const uint magnitude = bits & 0x7fffffffu;
  uint y;
  if (magnitude > 0x7f800000u) {
    y = 0x7fc00000u;
  } else if (magnitude >= 0x477ff000u) {
    y = 0x7f800000u;
  } else if (magnitude >= 0x38800000u) {
    y = (magnitude + 0xfffu + (magnitude >> 13 & 1u)) & 0xffffe000u;
  } else {  // a multiple of 2^-24
    const uint shift = min(126u - (magnitude >> 23), 31u);
    const uint mantissa = (magnitude & 0x7fffffu) | 0x800000u;
    const uint rest = mantissa & ((1u << shift) - 1u);
    uint units = mantissa >> shift;
    const uint tie = 1u << (shift - 1u);
    if (rest > tie || (rest == tie && (units & 1u) != 0u)) ++units;
    y = floatBitsToUint(float(units) * 5.9604645e-8);
  }
  return uintBitsToFloat((bits & 0x80000000u) | y);
}

float round_bf16(float x) {
  const uint bits = floatBitsToUint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uintBitsToFloat((bits & 0xffff0000u) | 0x400000u);
  return uintBitsToFloat((bits + 0x7fffu + (bits >> 16 & 1u)) & 0xffff0000u);
}

#endif

//! variant w32 :
// Numbers of a quantized type become f32. They lie in words of 32 bits, or several in a word, the first in its lowest
// bits.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/quantization/quantization_push.h"
layout(local_size_x = 128) in;
layout(constant_id = 4) const uint kBits = 32;
layout(constant_id = 5) const uint kSigned = 1;
layout(binding = 0) readonly buffer Q { uint q[]; };
layout(binding = 1) readonly buffer S { float s[]; };
layout(binding = 2) readonly buffer Z { uint z[]; };
layout(binding = 3) writeonly buffer Y { float y[]; };
#include "shaders/quantization/quantization.glsl"

int element(uint i) {
  if (kBits == 32u) return int(q[i]);
  const uint per_word = 32u / kBits;
  const uint word = q[i / per_word];
  const int at = int(i % per_word * kBits);
  return kSigned != 0u ? bitfieldExtract(int(word), at, int(kBits)) : int(bitfieldExtract(word, at, int(kBits)));
}

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const uint at = scale_of(p.first + i);
  y[i] = kMantissa != 0u ? from_float(uintBitsToFloat(q[i]), at) : from_integer(element(i), at);
}

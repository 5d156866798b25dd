//! variant w32 :
// Numbers become those of a quantized type, in words of 32 bits, or (kFake) go there and back.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/quantization/quantization_push.h"
layout(local_size_x = 128) in;
layout(constant_id = 4) const uint kFake = 0;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) readonly buffer S { float s[]; };
layout(binding = 2) readonly buffer Z { uint z[]; };
layout(binding = 3) writeonly buffer Y { uint y[]; };
#include "shaders/quantization/quantization.glsl"

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const uint at = scale_of(p.first + i);
  if (kMantissa != 0u) {
    const float v = to_float_type(x[i], at);
    y[i] = floatBitsToUint(kFake != 0u ? from_float(v, at) : v);
    return;
  }
  const int v = limited(to_integer(x[i], at));
  y[i] = kFake != 0u ? floatBitsToUint(from_integer(v, at)) : uint(v);
}

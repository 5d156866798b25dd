//! variant f32 :
// The straight-through gradient: dy where x was not limited, else 0.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/quantization/quantization_push.h"
layout(local_size_x = 128) in;
layout(binding = 0) readonly buffer DY { float dy[]; };
layout(binding = 1) readonly buffer X { float x[]; };
layout(binding = 2) readonly buffer S { float s[]; };
layout(binding = 3) readonly buffer Z { uint z[]; };
layout(binding = 4) writeonly buffer DX { float dx[]; };
#include "shaders/quantization/quantization.glsl"

bool passes(float v, uint at) {
  if (kMantissa != 0u) {
    const float scaled = quotient(v, s[at]) + (kHasZeroPoint != 0u ? uintBitsToFloat(z[at]) : 0.0);
    return abs(scaled) <= p.high;
  }
  const int whole = to_integer(v, at);
  return whole >= int(p.low) && whole <= int(p.high);
}

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  dx[i] = passes(x[i], scale_of(p.first + i)) ? dy[i] : 0.0;
}

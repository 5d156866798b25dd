// Pads or crops a tensor of 32-bit words: every element of y finds its source.
//! variant w32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/pad/pad_push.h"

layout(std430, set = 0, binding = 0) readonly buffer X { uint x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Y { uint y[]; };

const uint REFLECT = 1u;

void main() {
  const uint flat_index = flat_invocation();
  if (flat_index >= p.count) return;
  uint rest = flat_index;
  uint from = 0u;
  uint stride = 1u;
  bool outside = false;
  for (uint axis = p.axes; axis-- > 0u;) {
    const uint quotient = rest / p.out_size[axis];
    const int size = int(p.in_size[axis]);
    int i = int(rest - quotient * p.out_size[axis]) - p.before[axis];
    rest = quotient;
    if (i < 0 || i >= size) {
      if (p.mode == 0u) {
        outside = true;
        break;
      }
      if (p.mode == REFLECT) i = i < 0 ? -i : 2 * (size - 1) - i;
      i = clamp(i, 0, size - 1);
    }
    from += uint(i) * stride;
    stride *= p.in_size[axis];
  }
  y[flat_index] = outside ? p.word : x[from];
}

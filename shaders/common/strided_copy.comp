// Copies a strided box of 32-bit words; one invocation per word.
//! variant w32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/common/strided_copy_push.h"

layout(std430, set = 0, binding = 0) readonly buffer From { uint from_words[]; };
layout(std430, set = 0, binding = 1) writeonly buffer To { uint to_words[]; };

void main() {
  uint rest = flat_invocation();
  if (rest >= p.count) return;
  uint from = p.from_offset;
  uint to = p.to_offset;
  for (uint axis = p.axes - 1u; axis > 0u; --axis) {
    const uint quotient = rest / p.size[axis];
    const uint i = rest - quotient * p.size[axis];
    from += i * p.from_stride[axis];
    to += i * p.to_stride[axis];
    rest = quotient;
  }
  to_words[to + rest * p.to_stride[0]] = from_words[from + rest * p.from_stride[0]];
}

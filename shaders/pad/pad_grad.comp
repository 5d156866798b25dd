// The gradient of reflect and edge padding along one axis: every element of dx adds up its images in dy.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/pad/pad_grad_push.h"

layout(std430, set = 0, binding = 0) readonly buffer Dy { float dy[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Dx { float dx[]; };

uint base;

float image(int o) { return o >= 0 && o < p.out_size ? dy[base + uint(o) * p.inner] : 0.0; }

void main() {
  const uint flat_index = flat_invocation();
  if (flat_index >= p.count) return;
  const uint row = flat_index / p.inner;
  const uint outer = row / uint(p.in_size);
  const int i = int(row - outer * uint(p.in_size));
  base = outer * uint(p.out_size) * p.inner + (flat_index - row * p.inner);

  float sum = 0.0;
  if (p.mode == 1u) {
    sum = image(i + p.before);
    if (i > 0) sum += image(p.before - i);
    if (i < p.in_size - 1) sum += image(p.before + 2 * (p.in_size - 1) - i);
  } else {
    const int first = i == 0 ? 0 : max(i + p.before, 0);
    const int last = i == p.in_size - 1 ? p.out_size - 1 : min(i + p.before, p.out_size - 1);
    for (int o = first; o <= last; ++o) sum += dy[base + uint(o) * p.inner];
  }
  dx[flat_index] = sum;
}

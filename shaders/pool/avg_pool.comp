//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
// The mean of each window.
layout(local_size_x = 64) in;  // before index.glsl, which reads it
#include "shaders/pool/pool_push.h"
#include "shaders/pool/pool.glsl"

layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) writeonly buffer Y { float y[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const Pixel at = pixel_of(i, p.oh, p.ow);
  const int h0 = int(at.h * p.stride_h) - int(p.pad_h);
  const int w0 = int(at.w * p.stride_w) - int(p.pad_w);
  const uint h_end = uint(clamp(h0 + int(p.kernel_h), 0, int(p.h)));
  const uint w_end = uint(clamp(w0 + int(p.kernel_w), 0, int(p.w)));
  for (uint channel = at.channel; channel < p.c; channel += p.channel_step) {
    float sum = 0.0;
    for (uint h = uint(max(h0, 0)); h < h_end; ++h) {
      for (uint w = uint(max(w0, 0)); w < w_end; ++w) sum += x[((at.image * p.h + h) * p.w + w) * p.c + channel];
    }
    y[at.base + channel] = sum / pool_divisor(at.h, at.w);
  }
}

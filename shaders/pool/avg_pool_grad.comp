//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
// dx of average pooling as a gather: each input position adds up, in order, its share of every window over it.
layout(local_size_x = 64) in;  // before index.glsl, which reads it
#include "shaders/pool/pool_push.h"
#include "shaders/pool/pool.glsl"

layout(std430, binding = 0) readonly buffer DY { float dy[]; };
layout(std430, binding = 1) writeonly buffer DX { float dx[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const Pixel at = pixel_of(i, p.h, p.w);
  const uvec2 rows = windows_over(at.h, p.pad_h, p.kernel_h, 1, p.stride_h, p.oh);
  const uvec2 columns = windows_over(at.w, p.pad_w, p.kernel_w, 1, p.stride_w, p.ow);
  for (uint channel = at.channel; channel < p.c; channel += p.channel_step) {
    float sum = 0.0;
    for (uint oh = rows.x; oh < rows.y; ++oh) {
      for (uint ow = columns.x; ow < columns.y; ++ow) {
        sum += dy[((at.image * p.oh + oh) * p.ow + ow) * p.c + channel] / pool_divisor(oh, ow);
      }
    }
    dx[at.base + channel] = sum;
  }
}

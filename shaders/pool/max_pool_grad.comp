//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
// dx of max pooling as a gather: each input position adds up, in order, the windows whose maximum it was.
layout(local_size_x = 64) in;  // before index.glsl, which reads it
#include "shaders/pool/pool_push.h"
#include "shaders/pool/pool.glsl"

layout(std430, binding = 0) readonly buffer DY { float dy[]; };
layout(std430, binding = 1) readonly buffer Indices { int indices[]; };
layout(std430, binding = 2) writeonly buffer DX { float dx[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const Pixel at = pixel_of(i, p.h, p.w);
  const int own = int(at.h * p.w + at.w);
  const uvec2 rows = windows_over(at.h, p.pad_h, p.kernel_h, p.dilation_h, p.stride_h, p.oh);
  const uvec2 columns = windows_over(at.w, p.pad_w, p.kernel_w, p.dilation_w, p.stride_w, p.ow);
  for (uint channel = at.channel; channel < p.c; channel += p.channel_step) {
    float sum = 0.0;
    for (uint oh = rows.x; oh < rows.y; ++oh) {
      for (uint ow = columns.x; ow < columns.y; ++ow) {
        const uint from = ((at.image * p.oh + oh) * p.ow + ow) * p.c + channel;
        if (indices[from] == own) sum += dy[from];
      }
    }
    dx[at.base + channel] = sum;
  }
}

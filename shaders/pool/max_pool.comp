//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
// The maximum of each window and the flat h * w + w position that holds it: the first of equals, the first NaN before
// any number (PyTorch's rules). A window that lies in the padding alone gives minus infinity and position -1.
layout(local_size_x = 64) in;  // before index.glsl, which reads it
#include "shaders/pool/pool_push.h"
#include "shaders/pool/pool.glsl"

layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) writeonly buffer Y { float y[]; };
layout(std430, binding = 2) writeonly buffer Indices { int indices[]; };

// By its bits: isnan() may be folded away where the driver assumes numbers.
bool is_nan(float value) { return (floatBitsToUint(value) & 0x7fffffffu) > 0x7f800000u; }

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const Pixel at = pixel_of(i, p.oh, p.ow);
  const int h0 = int(at.h * p.stride_h) - int(p.pad_h);
  const int w0 = int(at.w * p.stride_w) - int(p.pad_w);
  for (uint channel = at.channel; channel < p.c; channel += p.channel_step) {
    float best = uintBitsToFloat(0xff800000u);
    int index = -1;
    for (uint r = 0; r < p.kernel_h; ++r) {
      const uint h = uint(h0 + int(r * p.dilation_h));
      if (h >= p.h) continue;
      for (uint s = 0; s < p.kernel_w; ++s) {
        const uint w = uint(w0 + int(s * p.dilation_w));
        const bool inside = w < p.w;
        const float value = x[inside ? ((at.image * p.h + h) * p.w + w) * p.c + channel : 0u];
        const bool better = index < 0 || (is_nan(value) ? !is_nan(best) : value > best);
        if (inside && better) {
          best = value;
          index = int(h * p.w + w);
        }
      }
    }
    y[at.base + channel] = best;
    indices[at.base + channel] = index;
  }
}

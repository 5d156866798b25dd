//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
// One invocation per element of y = conv(x, weight): the yardstick of benchmarks, used by no op. Takes conv's push
// block and bindings, without bias; any groups.
layout(local_size_x = 64) in;  // before index.glsl, which reads it
#include "shaders/common/index.glsl"
#include "shaders/conv/conv_push.h"

layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Weight { float weight[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };

void main() {
  const uint i = flat_invocation();
  const uint pixel = i / p.o;
  if (pixel >= p.m) return;
  const uint o = i - pixel * p.o;
  const uint line = pixel / p.ow;
  const uint image = line / p.oh;
  const int h0 = int((line - image * p.oh) * p.stride_h) - int(p.pad_h);
  const int w0 = int((pixel - line * p.ow) * p.stride_w) - int(p.pad_w);
  const uint channel = o / p.group_o * p.group_c;
  float sum = 0.0;
  for (uint r = 0; r < p.kh; ++r) {
    const uint h = uint(h0 + int(r * p.dilation_h));
    for (uint s = 0; s < p.kw; ++s) {
      const uint w = uint(w0 + int(s * p.dilation_w));
      if (h >= p.h || w >= p.w) continue;
      const uint from = ((image * p.h + h) * p.w + w) * p.c + channel;
      const uint tap = ((o * p.kh + r) * p.kw + s) * p.group_c;
      for (uint c = 0; c < p.group_c; ++c) sum += x[from + c] * weight[tap + c];
    }
  }
  y[i] = sum;
}

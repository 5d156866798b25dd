//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Depthwise y = conv(x, weight) (+ bias): weight [o, kh, kw, 1], output channel o reads input channel o / group_o.
// An invocation computes kPixels neighbouring pixels of one channel, so that each weight is loaded once for them.
layout(local_size_x = 64) in;  // before index.glsl, which reads it
#include "shaders/common/index.glsl"
#include "shaders/conv/conv_depthwise_push.h"

layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Weight { float weight[]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };  // any buffer without bias
layout(std430, binding = 3) writeonly buffer Y { float y[]; };
const uint kPixels = 4;

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  uint rest = i / p.o;
  const uint channel = i - rest * p.o;
  const uint blocks = (p.ow + kPixels - 1) / kPixels;
  const uint line = rest / blocks;
  const uint ow0 = (rest - line * blocks) * kPixels;
  const uint image = line / p.oh;
  const int h0 = int((line - image * p.oh) * p.stride_h) - int(p.pad_h);
  const int w0 = int(ow0 * p.stride_w) - int(p.pad_w);
  const uint in_channel = channel / p.group_o;

  float sum[kPixels];
  const float start = p.has_bias != 0 ? bias[channel] : 0.0;
  [[unroll]] for (uint j = 0; j < kPixels; ++j) sum[j] = start;
  for (uint r = 0; r < p.kh; ++r) {
    const uint h = uint(h0 + int(r * p.dilation_h));
    if (h >= p.h) continue;
    const uint line_base = (image * p.h + h) * p.w;
    for (uint s = 0; s < p.kw; ++s) {
      const float tap = weight[(channel * p.kh + r) * p.kw + s];
      [[unroll]] for (uint j = 0; j < kPixels; ++j) {
        const uint w = uint(w0 + int(j * p.stride_w + s * p.dilation_w));
        const bool inside = w < p.w;
        const float value = x[inside ? (line_base + w) * p.c + in_channel : 0u];
        sum[j] += inside ? value * tap : 0.0;
      }
    }
  }
  [[unroll]] for (uint j = 0; j < kPixels; ++j) {
    if (ow0 + j < p.ow) y[(line * p.ow + ow0 + j) * p.o + channel] = sum[j];
  }
}

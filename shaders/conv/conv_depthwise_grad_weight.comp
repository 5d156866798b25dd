//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Gradient of a depthwise convolution by its weight. An invocation sums kTaps neighbouring taps of one output channel
// over a share of the output's lines; matmul_split_sum adds the shares in their order.
layout(local_size_x = 64) in;  // before index.glsl, which reads it
#include "shaders/common/index.glsl"
#include "shaders/conv/conv_depthwise_push.h"

layout(constant_id = 0) const uint kTaps = 3;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer DY { float dy[]; };
layout(std430, binding = 2) writeonly buffer DW { float dw[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  // Neighbouring invocations hold neighbouring channels: their loads are contiguous.
  uint rest = i / p.o;
  const uint channel = i - rest * p.o;
  const uint blocks = (p.kw + kTaps - 1) / kTaps;
  const uint s0 = rest % blocks * kTaps;
  rest /= blocks;
  const uint r = rest % p.kh;
  const uint copy = rest / p.kh;
  const uint split = p.first_split + copy;
  const uint in_channel = channel / p.group_o;
  const uint line_end = min(p.lines, (split + 1) * p.lines_per_split);

  float sum[kTaps];
  [[unroll]] for (uint j = 0; j < kTaps; ++j) sum[j] = 0.0;
  for (uint line = split * p.lines_per_split; line < line_end; ++line) {
    const uint image = line / p.oh;
    const uint h = uint(int((line - image * p.oh) * p.stride_h + r * p.dilation_h) - int(p.pad_h));
    if (h >= p.h) continue;
    const uint line_base = (image * p.h + h) * p.w;
    for (uint ow = 0; ow < p.ow; ++ow) {
      const float grad = dy[(line * p.ow + ow) * p.o + channel];
      const int w0 = int(ow * p.stride_w + s0 * p.dilation_w) - int(p.pad_w);
      [[unroll]] for (uint j = 0; j < kTaps; ++j) {
        const uint w = uint(w0 + int(j * p.dilation_w));
        const bool inside = w < p.w;
        const float value = x[inside ? (line_base + w) * p.c + in_channel : 0u];
        sum[j] += inside ? value * grad : 0.0;
      }
    }
  }
  const uint base = ((copy * p.o + channel) * p.kh + r) * p.kw;
  [[unroll]] for (uint j = 0; j < kTaps; ++j) {
    if (s0 + j < p.kw) dw[base + s0 + j] = sum[j];
  }
}

//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Gradient of a depthwise convolution by x (also depthwise transposed convolution, then with bias), as a gather:
// an invocation sums what reaches kPixels neighbouring input pixels of one channel.
layout(local_size_x = 64) in;  // before index.glsl, which reads it
#include "shaders/common/index.glsl"
#include "shaders/conv/conv_depthwise_push.h"

layout(std430, binding = 0) readonly buffer DY { float dy[]; };
layout(std430, binding = 1) readonly buffer Weight { float weight[]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };  // any buffer without bias
layout(std430, binding = 3) writeonly buffer DX { float dx[]; };
layout(constant_id = 0) const bool kUnitStride = false;  // spares divisions, of which CPUs do one lane at a time
const uint kPixels = 4;

// The output position whose tap at `offset` reaches input position `at`, or one past every output.
uint reached_from(uint at, uint offset, uint stride) {
  const uint distance = at - offset;  // wraps past every output where the tap begins beyond the position
  if (kUnitStride) return distance;
  const uint position = distance / stride;
  return at >= offset && position * stride == distance ? position : 0xffffffffu;
}

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  uint rest = i / p.c;
  const uint channel = i - rest * p.c;
  const uint blocks = (p.w + kPixels - 1) / kPixels;
  const uint line = rest / blocks;
  const uint w0 = (rest - line * blocks) * kPixels;
  const uint image = line / p.h;
  const uint h = line - image * p.h;

  float sum[kPixels];
  const float start = p.has_bias != 0 ? bias[channel] : 0.0;
  [[unroll]] for (uint j = 0; j < kPixels; ++j) sum[j] = start;
  for (uint r = 0; r < p.kh; ++r) {
    const uint oh = reached_from(h + p.pad_h, r * p.dilation_h, p.stride_h);
    if (oh >= p.oh) continue;
    const uint line_base = (image * p.oh + oh) * p.ow;
    for (uint s = 0; s < p.kw; ++s) {
      uint from[kPixels];
      [[unroll]] for (uint j = 0; j < kPixels; ++j) {
        from[j] = reached_from(w0 + j + p.pad_w, s * p.dilation_w, p.stride_w);
      }
      for (uint o = channel * p.group_o; o < (channel + 1) * p.group_o; ++o) {
        const float tap = weight[(o * p.kh + r) * p.kw + s];
        [[unroll]] for (uint j = 0; j < kPixels; ++j) {
          const bool inside = from[j] < p.ow;
          const float value = dy[inside ? (line_base + from[j]) * p.o + o : 0u];
          sum[j] += inside ? value * tap : 0.0;
        }
      }
    }
  }
  [[unroll]] for (uint j = 0; j < kPixels; ++j) {
    if (w0 + j < p.w) dx[(line * p.w + w0 + j) * p.c + channel] = sum[j];
  }
}

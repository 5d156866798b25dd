//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Depthwise y = conv(x, weight) (+ bias), weight [c, kh, kw, 1]; with kFlip and fitting pads also its gradient by x at
// stride 1, which is a convolution of dy with the turned kernel.
#include "shaders/conv/conv_depthwise_window_push.h"

layout(std430, binding = 0) readonly buffer X { vec4 x[]; };
layout(std430, binding = 1) readonly buffer Weight { float weight[]; };
layout(std430, binding = 2) readonly buffer Bias { vec4 bias[]; };  // any buffer without bias
layout(std430, binding = 3) writeonly buffer Y { vec4 y[]; };
#include "shaders/conv/conv_depthwise_window.glsl"
layout(constant_id = 4) const bool kFlip = false;

void main() {
  const uint i = flat_invocation();
  const uint index = i / p.quads;
  if (index >= p.units) return;
  const uint quad = i - index * p.quads;
  const Unit unit = unit_at(index);
  vec4 taps[kTaps];
  [[unroll]] for (uint t = 0; t < kTaps; ++t) {
    const uint from = kFlip ? kTaps - 1 - t : t;
    [[unroll]] for (uint channel = 0; channel < 4; ++channel) {
      taps[t][channel] = weight[(quad * 4 + channel) * kTaps + from];
    }
  }
  const vec4 start = p.has_bias != 0 ? bias[quad] : vec4(0.0);
  // Ends at its foot: see gemm_shuffle.glsl.
  int column = -kWarmUp;
  while (true) {
    slide_window(unit, column, quad);
    [[unroll]] for (uint i = 0; i < kLines; ++i) {
      vec4 sum = start;
      [[unroll]] for (uint r = 0; r < kKh; ++r) {
        [[unroll]] for (uint s = 0; s < kKw; ++s) {
          sum += window[s * kIn + i * kStrideH + r] * taps[r * kKw + s];
        }
      }
      if (column >= 0 && unit.oh0 + i < p.oh) y[y_at(unit, i, column, quad)] = sum;
    }
    if (++column == int(unit.columns)) break;
  }
}

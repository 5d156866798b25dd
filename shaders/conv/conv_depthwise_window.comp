//! variant f32 :
//! variant f32_pairs : -DWINDOW_PAIRS
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Depthwise y = conv(x, weight) (+ bias), weight [c, kh, kw, 1]; with kFlip and fitting pads also its gradient by x at
// stride 1, which is a convolution of dy with the turned kernel.
#include "shaders/conv/conv_depthwise_window_push.h"
#include "shaders/conv/conv_depthwise_run.glsl"

layout(std430, binding = 0) readonly buffer X { Run x[]; };
layout(std430, binding = 1) readonly buffer Weight { float weight[]; };
layout(std430, binding = 2) readonly buffer Bias { Run bias[]; };  // any buffer without bias
layout(std430, binding = 3) writeonly buffer Y { Run y[]; };
#include "shaders/conv/conv_depthwise_window.glsl"
layout(constant_id = 4) const bool kFlip = false;

void main() {
  const uint i = flat_invocation();
  const uint index = i / p.strips;
  if (index >= p.units) return;
  const uint strip = i - index * p.strips;
  const Unit unit = unit_at(index);
  vec4 taps[kTaps * kVectors];
  [[unroll]] for (uint t = 0; t < kTaps; ++t) {
    const uint from = kFlip ? kTaps - 1 - t : t;
    [[unroll]] for (uint channel = 0; channel < 4 * kVectors; ++channel) {
      taps[t * kVectors + channel / 4][channel % 4] = weight[(strip * 4 * kVectors + channel) * kTaps + from];
    }
  }
  Run start = Run(0.0);
  if (p.has_bias != 0) start = bias[strip];
  // Tests at its end: see gemm_shuffle.glsl.
  int column = -kWarmUp;
  while (true) {
    slide_window(unit, column, strip);
    [[unroll]] for (uint i = 0; i < kLines; ++i) {
      Run sum = start;
      [[unroll]] for (uint r = 0; r < kKh; ++r) {
        [[unroll]] for (uint s = 0; s < kKw; ++s) {
          [[unroll]] for (uint v = 0; v < kVectors; ++v) {
            VECTOR(sum, v) += window[(s * kIn + i * kStrideH + r) * kVectors + v] * taps[(r * kKw + s) * kVectors + v];
          }
        }
      }
      if (column >= 0 && unit.oh0 + i < p.oh) y[y_at(unit, i, column, strip)] = sum;
    }
    if (++column == int(unit.columns)) break;
  }
}

//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Gradient of a depthwise convolution by its weight. An invocation adds up all taps of four channels over its share of
// the units; matmul_split_sum adds the shares in their order.
#include "shaders/conv/conv_depthwise_window_push.h"

layout(std430, binding = 0) readonly buffer X { vec4 x[]; };
layout(std430, binding = 1) readonly buffer DY { vec4 dy[]; };
layout(std430, binding = 2) writeonly buffer DW { float dw[]; };
#include "shaders/conv/conv_depthwise_window.glsl"

void main() {
  const uint i = flat_invocation();
  const uint copy = i / p.quads;
  if (copy >= p.splits) return;
  const uint split = p.first_split + copy;
  const uint quad = i - copy * p.quads;
  vec4 sums[kTaps];
  [[unroll]] for (uint t = 0; t < kTaps; ++t) sums[t] = vec4(0.0);
  const uint end = min(p.units, (split + 1) * p.units_per_split);
  for (uint index = split * p.units_per_split; index < end; ++index) {
    const Unit unit = unit_at(index);
    // While it fills it is multiplied by zero: what it holds must be a number.
    [[unroll]] for (uint t = 0; t < kKw * kIn; ++t) window[t] = vec4(0.0);
    int column = -kWarmUp;
    while (true) {
      slide_window(unit, column, quad);
      [[unroll]] for (uint i = 0; i < kLines; ++i) {
        const bool inside = column >= 0 && unit.oh0 + i < p.oh;
        const vec4 loaded = dy[inside ? y_at(unit, i, column, quad) : quad];
        const vec4 grad = inside ? loaded : vec4(0.0);
        [[unroll]] for (uint r = 0; r < kKh; ++r) {
          [[unroll]] for (uint s = 0; s < kKw; ++s) {
            sums[r * kKw + s] += window[s * kIn + i * kStrideH + r] * grad;
          }
        }
      }
      if (++column == int(unit.columns)) break;
    }
  }
  [[unroll]] for (uint t = 0; t < kTaps; ++t) {
    [[unroll]] for (uint channel = 0; channel < 4; ++channel) {
      dw[((copy * p.quads + quad) * 4 + channel) * kTaps + t] = sums[t][channel];
    }
  }
}

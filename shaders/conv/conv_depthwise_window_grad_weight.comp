//! variant f32 :
//! variant f32_pairs : -DWINDOW_PAIRS
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Gradient of a depthwise convolution by its weight. An invocation adds up all taps of four channels over its share of
// the units; matmul_split_sum adds the shares in their order.
#include "shaders/conv/conv_depthwise_window_push.h"
#include "shaders/conv/conv_depthwise_run.glsl"

layout(std430, binding = 0) readonly buffer X { Run x[]; };
layout(std430, binding = 1) readonly buffer DY { Run dy[]; };
layout(std430, binding = 2) writeonly buffer DW { float dw[]; };
#include "shaders/conv/conv_depthwise_window.glsl"

void main() {
  const uint i = flat_invocation();
  const uint copy = i / p.strips;
  if (copy >= p.splits) return;
  const uint split = p.first_split + copy;
  const uint strip = i - copy * p.strips;
  vec4 sums[kTaps * kVectors];
  [[unroll]] for (uint t = 0; t < kTaps * kVectors; ++t) sums[t] = vec4(0.0);
  const uint end = min(p.units, (split + 1) * p.units_per_split);
  for (uint index = split * p.units_per_split; index < end; ++index) {
    const Unit unit = unit_at(index);
    // While it fills it is multiplied by zero: what it holds must be a number.
    [[unroll]] for (uint t = 0; t < kKw * kIn * kVectors; ++t) window[t] = vec4(0.0);
    int column = -kWarmUp;
    while (true) {
      slide_window(unit, column, strip);
      vec4 grads[kLines * kVectors];
      [[unroll]] for (uint i = 0; i < kLines; ++i) {
        const bool inside = column >= 0 && unit.oh0 + i < p.oh;
        const Run loaded = dy[inside ? y_at(unit, i, column, strip) : strip];
        [[unroll]] for (uint v = 0; v < kVectors; ++v) {
          grads[i * kVectors + v] = inside ? VECTOR(loaded, v) : vec4(0.0);
        }
      }
      // Tap by tap, so that a sum stays in a register for all lines.
      [[unroll]] for (uint r = 0; r < kKh; ++r) {
        [[unroll]] for (uint s = 0; s < kKw; ++s) {
          [[unroll]] for (uint v = 0; v < kVectors; ++v) {
            vec4 sum = sums[(r * kKw + s) * kVectors + v];
            [[unroll]] for (uint i = 0; i < kLines; ++i) {
              sum += window[(s * kIn + i * kStrideH + r) * kVectors + v] * grads[i * kVectors + v];
            }
            sums[(r * kKw + s) * kVectors + v] = sum;
          }
        }
      }
      if (++column == int(unit.columns)) break;
    }
  }
  [[unroll]] for (uint t = 0; t < kTaps; ++t) {
    [[unroll]] for (uint channel = 0; channel < 4 * kVectors; ++channel) {
      const float sum = sums[t * kVectors + channel / 4][channel % 4];
      dw[((copy * p.strips + strip) * 4 * kVectors + channel) * kTaps + t] = sum;
    }
  }
}

//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
// y = conv(x, weight) (+ bias) where x has few channels, as pictures do: as a product it would load x one number at a
// time, for sums that are short. A lane owns kColumns channels of y and holds all their weights; pixels go by.
#include "shaders/conv/conv_few.glsl"

layout(std430, binding = 0) readonly buffer XVectors { vec4 x4[]; };
layout(std430, binding = 1) readonly buffer Weight { float weight[]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };  // any buffer without bias
layout(std430, binding = 3) writeonly buffer Y { float y[]; };
layout(std430, binding = 3) writeonly buffer YVectors { vec4 y4[]; };

const uint kPixels = 2;  // at a time, whose sums fit registers; a divisor of kRun

void main() {
  const uint group = flat_workgroup();
  const uint tile = group / p.groups;
  const uint o = tile * (kLanes * kColumns);
  if (o >= p.o) return;
  const uint lane = gl_SubgroupInvocationID;
  uint run = (group - tile * p.groups) * p.each;
  const uint end = min(run + p.each, p.runs);

  float weights[kAllTaps * kColumns];
  float start[kColumns];
  [[unroll]] for (uint i = 0; i < kColumns; ++i) {
    start[i] = 0.0;
    if (p.has_bias != 0) start[i] = bias[min(o + channel_of(lane, i), p.o - 1)];
  }
  uint tap = 0;
  [[dont_unroll]] while (true) {
    [[unroll]] for (uint i = 0; i < kColumns; ++i) {
      weights[tap * kColumns + i] = weight[min(o + channel_of(lane, i), p.o - 1) * kAllTaps + tap];
    }
    if (++tap >= kAllTaps) break;
  }

  FEW_BEGIN(run)
  // Loops test at their end: llvmpipe runs the whole body once more of a loop that tests at its start.
  if (run < end) while (true) {
    vec4 x[kLoads];
    FEW_LOAD(0)
    const uint to = (line * p.ow + w) * p.o + o;
    [[unroll]] for (uint j = 0; j < kRun; j += kPixels) {
      float sums[kPixels * kColumns];
      [[unroll]] for (uint i = 0; i < kPixels * kColumns; ++i) sums[i] = start[i % kColumns];
      [[unroll]] for (uint r = 0; r < kKh; ++r) {
        [[unroll]] for (uint t = 0; t < kTaps; ++t) {
          [[unroll]] for (uint i = 0; i < kPixels; ++i) {
            const float value = X_AT(r, kFirst + (j + i) * kStride * kC + t);
            [[unroll]] for (uint n = 0; n < kColumns; ++n) {
              sums[i * kColumns + n] += value * weights[(r * kTaps + t) * kColumns + n];
            }
          }
        }
      }
      [[unroll]] for (uint i = 0; i < kPixels; ++i) {
        if (w + j + i < p.ow) {
          const uint pixel = to + (j + i) * p.o;
          if (kFours) {
            [[unroll]] for (uint n = 0; n < kColumns; n += 4) {
              const uint channel = channel_of(lane, n);
              const vec4 four = vec4(sums[i * kColumns + n], sums[i * kColumns + min(n + 1, kColumns - 1)],
                                     sums[i * kColumns + min(n + 2, kColumns - 1)],
                                     sums[i * kColumns + min(n + 3, kColumns - 1)]);
              if (o + channel < p.o) y4[(pixel + channel) / 4] = four;
            }
          } else {
            [[unroll]] for (uint n = 0; n < kColumns; ++n) {
              const uint channel = channel_of(lane, n);
              if (o + channel < p.o) y[pixel + channel] = sums[i * kColumns + n];
            }
          }
        }
      }
    }
    if (++run >= end) break;
    FEW_NEXT
  }
}

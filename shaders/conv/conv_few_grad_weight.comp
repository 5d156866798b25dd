//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
// dw = the gradient of conv by the weight where x has few channels: parts of it, that matmul_split_sum adds up. A lane
// owns kColumns channels of y and sums their weights' gradients of kKh lines of the kernel; pixels go by.
#include "shaders/conv/conv_few.glsl"

layout(std430, binding = 0) readonly buffer XVectors { vec4 x4[]; };
layout(std430, binding = 1) readonly buffer DY { float dy[]; };
layout(std430, binding = 1) readonly buffer DYVectors { vec4 dy4[]; };
layout(std430, binding = 2) writeonly buffer DW { float dw[]; };

void main() {
  const uint group = flat_workgroup();
  uint rest = group / p.groups;
  const uint part = group - rest * p.groups;
  const uint line_groups = (p.kh + kKh - 1) / kKh;
  const uint tile = rest / line_groups;
  const uint first_r = (rest - tile * line_groups) * kKh;
  const uint o = tile * (kLanes * kColumns);
  if (o >= p.o) return;
  const uint lane = gl_SubgroupInvocationID;
  uint run = (p.first_part + part) * p.each;
  const uint end = min(run + p.each, p.runs);

  float sums[kAllTaps * kColumns];
  [[unroll]] for (uint i = 0; i < kAllTaps * kColumns; ++i) sums[i] = 0.0;

  FEW_BEGIN(run)
  // Loops test at their end: llvmpipe runs the whole body once more of a loop that tests at its start.
  if (run < end) while (true) {
    vec4 x[kLoads];
    FEW_LOAD(first_r)
    const uint from = (line * p.ow + w) * p.o + o;
    float g[kRun * kColumns];
    [[unroll]] for (uint j = 0; j < kRun; ++j) {
      const bool there = w + j < p.ow;
      if (kFours) {
        [[unroll]] for (uint n = 0; n < kColumns; n += 4) {
          const uint channel = channel_of(lane, n);
          const bool owned = there && o + channel < p.o;
          const vec4 four = dy4[owned ? (from + j * p.o + channel) / 4 : 0u];
          [[unroll]] for (uint q = 0; q < 4; ++q) g[j * kColumns + min(n + q, kColumns - 1)] = there ? four[q] : 0.0;
        }
      } else {
        [[unroll]] for (uint n = 0; n < kColumns; ++n) {
          const uint channel = channel_of(lane, n);
          const bool owned = there && o + channel < p.o;
          const float one = dy[owned ? from + j * p.o + channel : 0u];
          g[j * kColumns + n] = there ? one : 0.0;
        }
      }
    }
    [[unroll]] for (uint r = 0; r < kKh; ++r) {
      [[unroll]] for (uint t = 0; t < kTaps; ++t) {
        [[unroll]] for (uint j = 0; j < kRun; ++j) {
          const float value = X_AT(r, kFirst + j * kStride * kC + t);
          [[unroll]] for (uint n = 0; n < kColumns; ++n) {
            sums[(r * kTaps + t) * kColumns + n] += value * g[j * kColumns + n];
          }
        }
      }
    }
    if (++run >= end) break;
    FEW_NEXT
  }

  // A loop that picks registers by comparison, because each place in the code that stores costs a CPU driver's compiler
  // milliseconds.
  const uint all = p.kh * kTaps;
  uint tap = 0;
  [[dont_unroll]] while (true) {
    const uint at = first_r * kTaps + tap;
    [[unroll]] for (uint n = 0; n < kColumns; ++n) {
      float value = sums[n];
      [[unroll]] for (uint i = 1; i < kAllTaps; ++i) value = tap == i ? sums[i * kColumns + n] : value;
      const uint channel = o + channel_of(lane, n);
      if (channel < p.o && at < all) dw[part * p.part_stride + channel * all + at] = value;
    }
    if (++tap >= kAllTaps) break;
  }
}

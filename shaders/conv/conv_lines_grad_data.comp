//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
// dx = the gradient of conv by x (also transposed convolution, then with bias) where x has few channels, as pictures do:
// columns of a product would leave most lanes idle. A lane owns a run of pixels of a line with all their channels. Each
// pixel of dy under it is loaded once for all taps of a line of the kernel, four channels at a time; the weights are
// loaded once per subgroup and handed round by shuffles with constant lanes.
#include "shaders/conv/conv_lines_push.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 0) const uint kLanes = 8;  // of one subgroup
layout(constant_id = 1) const uint kRun = 16;   // pixels: a multiple of the stride
layout(constant_id = 2) const uint kC = 1;      // channels of dx
layout(constant_id = 3) const uint kKw = 3;
layout(constant_id = 4) const uint kStride = 1;
layout(constant_id = 5) const uint kPad = 0;         // less than kKw
layout(constant_id = 6) const bool kFours = false;   // numbers of dx are stored by fours, of which lines are whole ones
#include "shaders/common/index.glsl"

layout(std430, binding = 0) readonly buffer DYVectors { vec4 dy4[]; };
layout(std430, binding = 1) readonly buffer Weight { float weight[]; };
layout(std430, binding = 2) readonly buffer Bias { float bias[]; };  // any buffer without bias
layout(std430, binding = 3) writeonly buffer DX { float dx[]; };
layout(std430, binding = 3) writeonly buffer DXVectors { vec4 dx4[]; };

// Pixel j of a run is reached by tap s of column (j + kPad - s) / kStride where that is whole; from the run's first
// such column, kBack before the one of pixel 0 by tap 0, there are kIn.
const uint kBack = (kKw - 1 - kPad + kStride - 1) / kStride;
const uint kIn = (kRun - 1 + kPad) / kStride + kBack + 1;
const uint kWeights = 4 * kKw * kC;  // of a line of the kernel, for four channels of dy
const uint kWeightLoads = (kWeights + kLanes - 1) / kLanes;
const uint kNumbers = kRun * kC;

void main() {
  const uint group = flat_workgroup();
  const uint phase = group / p.groups;
  if (phase >= p.stride_h) return;
  const uint lane = gl_SubgroupInvocationID;
  const uint own = (group - phase * p.groups) * kLanes + lane;
  const uint at = min(own, p.lanes - 1);  // every lane hands weights round
  const uint line = at / p.runs;
  const uint w = (at - line * p.runs) * kRun;
  const uint lines = (p.h + p.stride_h - 1) / p.stride_h;
  const uint image = line / lines;
  const uint h = (line - image * lines) * p.stride_h + phase;

  float sums[kNumbers];
  [[unroll]] for (uint n = 0; n < kNumbers; ++n) sums[n] = 0.0;
  if (p.has_bias != 0) {
    [[unroll]] for (uint n = 0; n < kNumbers; ++n) sums[n] = bias[n % kC];
  }

  // Loops test at their end: llvmpipe runs the whole body once more of a loop that tests at its start.
  uint r = (phase + p.pad_h) % p.stride_h;
  if (r < p.kh) while (true) {
    const uint oh = uint(int(h + p.pad_h) - int(r)) / p.stride_h;  // above the first line: beyond all
    const bool inside = h + p.pad_h >= r && oh < p.oh;
    const uint dy_line = (image * p.oh + oh) * p.ow;
    const uint ow = w / kStride - kBack;  // may wrap
    uint o = 0;
    while (true) {
      float loaded[kWeightLoads];
      [[unroll]] for (uint i = 0; i < kWeightLoads; ++i) {
        const uint n = min(i * kLanes + lane, kWeights - 1);
        const uint q = n / (kKw * kC);
        loaded[i] = weight[((o + q) * p.kh + r) * (kKw * kC) + n - q * (kKw * kC)];
      }
      float weights[kWeights];
      [[unroll]] for (uint n = 0; n < kWeights; ++n) weights[n] = subgroupShuffle(loaded[n / kLanes], n % kLanes);
      vec4 columns[kIn];
      [[unroll]] for (uint d = 0; d < kIn; ++d) {
        const bool there = inside && ow + d < p.ow;
        const vec4 four = dy4[(there ? (dy_line + ow + d) * p.o + o : 0u) / 4];
        columns[d] = there ? four : vec4(0.0);
      }
      [[unroll]] for (uint j = 0; j < kRun; ++j) {
        [[unroll]] for (uint s = 0; s < kKw; ++s) {
          const uint steps = j + kPad + kStride * kBack - s;
          if (steps % kStride == 0) {
            [[unroll]] for (uint q = 0; q < 4; ++q) {
              [[unroll]] for (uint c = 0; c < kC; ++c) {
                sums[j * kC + c] += columns[steps / kStride][q] * weights[(q * kKw + s) * kC + c];
              }
            }
          }
        }
      }
      o += 4;
      if (o >= p.o) break;
    }
    r += p.stride_h;
    if (r >= p.kh) break;
  }

  if (own >= p.lanes || h >= p.h) return;
  const uint to = ((image * p.h + h) * p.w + w) * kC;
  const uint numbers = (p.w - w) * kC;  // of the line from here on
  if (kFours) {
    [[unroll]] for (uint n = 0; n < kNumbers; n += 4) {
      const vec4 four = vec4(sums[n], sums[min(n + 1, kNumbers - 1)], sums[min(n + 2, kNumbers - 1)],
                             sums[min(n + 3, kNumbers - 1)]);
      if (n < numbers) dx4[(to + n) / 4] = four;
    }
  } else {
    [[unroll]] for (uint n = 0; n < kNumbers; ++n) {
      if (n < numbers) dx[to + n] = sums[n];
    }
  }
}

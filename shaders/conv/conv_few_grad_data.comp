//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
// dx = the gradient of conv by x where x has few channels and strides are 1. A lane owns kColumns channels of dy and holds
// all their weights. A workgroup walks down a strip of kRun columns of dx: each line of dy is loaded once and adds to the
// sums of the kKh lines of dx that it reaches, of which the first is then complete and summed over the lanes.
#include "shaders/conv/conv_few.glsl"

layout(std430, binding = 0) readonly buffer DY { float dy[]; };
layout(std430, binding = 0) readonly buffer DYVectors { vec4 dy4[]; };
layout(std430, binding = 1) readonly buffer Weight { float weight[]; };
layout(std430, binding = 2) writeonly buffer DX { float dx[]; };

const uint kIn = kRun + kKw - 1;      // pixels of a line of dy that reach the strip
const uint kNumbers = kRun * kC;      // of a line of the strip, a multiple of kLanes
const uint kPixels = 2;               // of dx at a time, whose sums fit registers; a divisor of kRun

// Sums over the lanes of 2 * bit numbers' parts, in halves: a lane keeps the half that its bit says.
#define FOLD(bit)                                                                         \
  [[unroll]] for (uint i = 0; i < bit; ++i) {                                             \
    const bool upper = (lane & bit) != 0;                                                 \
    const float given = upper ? parts[i] : parts[min(i + bit, kLanes - 1)];              \
    parts[i] = (upper ? parts[min(i + bit, kLanes - 1)] : parts[i]) + subgroupShuffle(given, lane ^ bit);  \
  }

void main() {
  const uint group = flat_workgroup();
  const uint tile = group / p.groups;
  uint rest = group - tile * p.groups;
  const uint o = (p.first_part + tile) * (kLanes * kColumns);
  if (o >= p.o) return;
  const uint lane = gl_SubgroupInvocationID;
  const uint strips = (p.w + kRun - 1) / kRun;
  const uint stretch = rest / strips;
  const uint w = (rest - stretch * strips) * kRun;
  const uint stretches = (p.h + p.each - 1) / p.each;  // of a strip
  const uint image = stretch / stretches;
  const uint first = (stretch - image * stretches) * p.each;
  const uint end = min(first + p.each, p.h);

  float weights[kAllTaps * kColumns];
  uint tap = 0;
  [[dont_unroll]] while (true) {
    [[unroll]] for (uint n = 0; n < kColumns; ++n) {
      weights[tap * kColumns + n] = weight[min(o + channel_of(lane, n), p.o - 1) * kAllTaps + tap];
    }
    if (++tap >= kAllTaps) break;
  }

  float sums[kKh * kNumbers];
  [[unroll]] for (uint i = 0; i < kKh * kNumbers; ++i) sums[i] = 0.0;
  const uint to = tile * p.part_stride + (image * p.h * p.w + w) * kC;
  const uint numbers = (p.w - w) * kC;  // of a line from here on
  const uint left = w + kPad - (kKw - 1);  // may wrap
  // The line of dx that is complete after each step; lines before the first may wrap.
  uint h = first - (kKh - 1);

  // Loops test at their end: llvmpipe runs the whole body once more of a loop that tests at its start.
  while (true) {
    const uint row = h + p.pad_h;  // of dy; above the first: beyond all
    const uint from = ((image * p.oh + row) * p.ow + left) * p.o + o;
    float g[kIn * kColumns];
    [[unroll]] for (uint i = 0; i < kIn; ++i) {
      const bool there = row < p.oh && left + i < p.ow;
      if (kFours) {
        [[unroll]] for (uint n = 0; n < kColumns; n += 4) {
          const uint channel = channel_of(lane, n);
          const bool owned = there && o + channel < p.o;
          const vec4 four = dy4[owned ? (from + i * p.o + channel) / 4 : 0u];
          [[unroll]] for (uint q = 0; q < 4; ++q) g[i * kColumns + min(n + q, kColumns - 1)] = owned ? four[q] : 0.0;
        }
      } else {
        [[unroll]] for (uint n = 0; n < kColumns; ++n) {
          const uint channel = channel_of(lane, n);
          const bool owned = there && o + channel < p.o;
          const float one = dy[owned ? from + i * p.o + channel : 0u];
          g[i * kColumns + n] = owned ? one : 0.0;
        }
      }
    }
    // Tap r reaches the r-th of the lines; their sums move on by a line.
    float done[kNumbers];
    [[unroll]] for (uint r = 0; r < kKh; ++r) {
      [[unroll]] for (uint j = 0; j < kRun; j += kPixels) {
        float some[kPixels * kC];
        [[unroll]] for (uint i = 0; i < kPixels * kC; ++i) some[i] = sums[r * kNumbers + j * kC + i];
        [[unroll]] for (uint s = 0; s < kKw; ++s) {
          [[unroll]] for (uint n = 0; n < kColumns; ++n) {
            [[unroll]] for (uint c = 0; c < kC; ++c) {
              [[unroll]] for (uint i = 0; i < kPixels; ++i) {
                some[i * kC + c] +=
                    g[(j + i + kKw - 1 - s) * kColumns + n] * weights[((r * kKw + s) * kC + c) * kColumns + n];
              }
            }
          }
        }
        [[unroll]] for (uint i = 0; i < kPixels * kC; ++i) {
          if (r == 0) {
            done[j * kC + i] = some[i];
          } else {
            sums[(max(r, 1) - 1) * kNumbers + j * kC + i] = some[i];
          }
        }
      }
    }
    [[unroll]] for (uint i = 0; i < kNumbers; ++i) sums[(kKh - 1) * kNumbers + i] = 0.0;

    const bool inside = h >= first && h < end;
    [[unroll]] for (uint k = 0; k < kNumbers; k += kLanes) {
      float parts[kLanes];
      [[unroll]] for (uint i = 0; i < kLanes; ++i) parts[i] = done[k + i];
      if (kLanes > 8) { FOLD(8) }
      if (kLanes > 4) { FOLD(4) }
      FOLD(2)
      FOLD(1)
      if (inside && k + lane < numbers) dx[to + h * p.w * kC + k + lane] = parts[0];
    }
    if (++h == end) break;
  }
}

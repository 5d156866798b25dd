//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
// dx of average pooling as a gather: each input position adds up, in order, its share of every window over it.
// Positions go in blocks of 2 x 2, which mostly lie under the same windows.
#include "shaders/pool/pool_push.h"
#include "shaders/pool/pool.glsl"

layout(std430, binding = 0) readonly buffer DY { float dy[]; };
layout(std430, binding = 0) readonly buffer DYVectors { vec4 dy4[]; };
layout(std430, binding = 1) writeonly buffer DX { float dx[]; };
layout(std430, binding = 1) writeonly buffer DXVectors { vec4 dx4[]; };
POOL_LOAD(dy, vec4, dy, dy4)
POOL_STORE(dx, vec4, dx, dx4)

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  Run run = run_of(i, (p.h + kSide - 1) / kSide, (p.w + kSide - 1) / kSide);
  const uint h = run.line * kSide;
  const uvec2 rows = rows_over(h);
  while (true) {
    const uint w = run.column * kSide;
    const uvec2 columns = columns_over(w);
    vec4 sums[kSide * kSide];
    [[unroll]] for (uint at = 0; at < kSide * kSide; ++at) sums[at] = vec4(0.0);
    for (uint oh = rows.x; oh < rows.y; ++oh) {
      for (uint ow = columns.x; ow < columns.y; ++ow) {
        const vec4 share = load_dy((run.image * p.oh + oh) * p.ow + ow, run.strip) / pool_divisor(oh, ow);
        [[unroll]] for (uint at = 0; at < kSide * kSide; ++at) {
          // From the window's first position on; before it, the number wraps.
          const uint r = h + at / kSide + p.pad_h - oh * kStrideH;
          const uint s = w + at % kSide + p.pad_w - ow * kStrideW;
          sums[at] += r < kKernelH && s < kKernelW ? share : vec4(0.0);
        }
      }
    }
    [[unroll]] for (uint at = 0; at < kSide * kSide; ++at) {
      const uint to_h = h + at / kSide;
      const uint to_w = w + at % kSide;
      if (to_h < p.h && to_w < p.w) store_dx((run.image * p.h + to_h) * p.w + to_w, run.strip, sums[at]);
    }
    if (++run.column >= run.end) break;
  }
}

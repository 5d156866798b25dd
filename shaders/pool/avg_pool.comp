//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
// The mean of each window.
#include "shaders/pool/pool_push.h"
#include "shaders/pool/pool.glsl"

layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 0) readonly buffer XVectors { vec4 x4[]; };
layout(std430, binding = 1) writeonly buffer Y { float y[]; };
layout(std430, binding = 1) writeonly buffer YVectors { vec4 y4[]; };
POOL_LOAD(x, vec4, x, x4)
POOL_STORE(y, vec4, y, y4)

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  Run run = run_of(i, p.oh, p.ow);
  const int h0 = int(run.line * kStrideH) - int(p.pad_h);
  while (true) {
    const int w0 = int(run.column * kStrideW) - int(p.pad_w);
    vec4 sum = vec4(0.0);
    for (uint r = 0; r < kKernelH; ++r) {
      const uint h = uint(h0 + int(r));
      for (uint s = 0; s < kKernelW; ++s) {
        const uint w = uint(w0 + int(s));
        const bool inside = h < p.h && w < p.w;
        const vec4 value = load_x(inside ? (run.image * p.h + h) * p.w + w : 0u, run.strip);
        sum += inside ? value : vec4(0.0);
      }
    }
    store_y((run.image * p.oh + run.line) * p.ow + run.column, run.strip, sum / pool_divisor(run.line, run.column));
    if (++run.column >= run.end) break;
  }
}

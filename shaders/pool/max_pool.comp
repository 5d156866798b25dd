//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
// The maximum of each window and the flat h * w + w position that holds it: the first of equals, the first NaN before
// any number (PyTorch's rules). A window that lies in the padding alone gives minus infinity and position -1.
#include "shaders/pool/pool_push.h"
#include "shaders/pool/pool.glsl"

layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 0) readonly buffer XVectors { vec4 x4[]; };
layout(std430, binding = 1) writeonly buffer Y { float y[]; };
layout(std430, binding = 1) writeonly buffer YVectors { vec4 y4[]; };
layout(std430, binding = 2) writeonly buffer Indices { int indices[]; };
layout(std430, binding = 2) writeonly buffer IndexVectors { ivec4 indices4[]; };
POOL_LOAD(x, vec4, x, x4)
POOL_STORE(y, vec4, y, y4)
POOL_STORE(indices, ivec4, indices, indices4)

// By its bits: isnan() may be folded away where the driver assumes numbers.
bool is_nan(float value) { return (floatBitsToUint(value) & 0x7fffffffu) > 0x7f800000u; }

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  Run run = run_of(i, p.oh, p.ow);
  const int h0 = int(run.line * kStrideH) - int(p.pad_h);
  // Tests at its end: llvmpipe runs the whole body once more of a loop that tests at its start.
  while (true) {
    const int w0 = int(run.column * kStrideW) - int(p.pad_w);
    vec4 best = vec4(uintBitsToFloat(0xff800000u));
    ivec4 index = ivec4(-1);
    for (uint r = 0; r < kKernelH; ++r) {
      const uint h = uint(h0 + int(r * kDilationH));
      for (uint s = 0; s < kKernelW; ++s) {
        const uint w = uint(w0 + int(s * kDilationW));
        const bool inside = h < p.h && w < p.w;
        const int position = int(h * p.w + w);
        const vec4 value = load_x(inside ? run.image * p.h * p.w + uint(position) : 0u, run.strip);
        [[unroll]] for (uint channel = 0; channel < 4; ++channel) {
          const bool above = value[channel] > best[channel] || (is_nan(value[channel]) && !is_nan(best[channel]));
          const bool better = inside && (above || index[channel] < 0);
          best[channel] = better ? value[channel] : best[channel];
          index[channel] = better ? position : index[channel];
        }
      }
    }
    const uint pixel = (run.image * p.oh + run.line) * p.ow + run.column;
    store_y(pixel, run.strip, best);
    store_indices(pixel, run.strip, index);
    if (++run.column >= run.end) break;
  }
}

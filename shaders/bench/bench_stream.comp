//! variant copy : -DCOPY
//! variant read :
//! variant nothing : -DNOTHING
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
// Memory alone: copies floats, or reads and adds them up, four at a time and side by side. The dispatch covers the
// buffers exactly, so no bounds are tested. `nothing` touches a single word: what is left is the cost of a dispatch.
layout(constant_id = 0) const uint kThreads = 128;
layout(constant_id = 1) const uint kVectors = 16;  // of an invocation
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
#include "shaders/bench/bench_stream_push.h"
#include "shaders/common/index.glsl"

layout(std430, binding = 0) readonly buffer X { vec4 x[]; };
layout(std430, binding = 1) writeonly buffer Y { vec4 y[]; };

void main() {
#ifdef NOTHING
  if (gl_LocalInvocationIndex == 0) y[0] = vec4(p.count);
#else
  const uint first = flat_workgroup() * (kThreads * kVectors) + gl_LocalInvocationIndex;
  vec4 sum = vec4(0.0);
  for (uint k = 0; k < kVectors; ++k) {
    const uint i = first + k * kThreads;
#ifdef COPY
    y[i] = x[i];
#else
    sum += x[i];
#endif
  }
#ifndef COPY
  if (sum.x + sum.y + sum.z + sum.w == 12345.0) y[0] = sum;  // almost never true, but no compiler knows
#endif
#endif
}

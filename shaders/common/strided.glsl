// main() of kernels whose operands are broadcast. Include after layout(local_size_x), for
// gl_WorkGroupSize is read; constant_id 0 is the kernel's own. Define after the include:
//   void vector(uint i, uvec3 at)   elements 4i to 4i+3 of the output from operands at these offsets, which count
//                                   vectors of four, or single elements where the operand's bit of SPLAT is set
//   void single(uint i, uvec3 at)   element i from the elements at these offsets
// The host's twin is emit_strided() in runtime/ops/elementwise.h.
#ifndef GRAFT_STRIDED_GLSL
#define GRAFT_STRIDED_GLSL
#extension GL_KHR_shader_subgroup_basic : require
#include "shaders/common/index.glsl"
#include "shaders/common/strided_push.h"

layout(constant_id = 1) const uint RANK = 1;
layout(constant_id = 2) const bool VECTOR = false;
layout(constant_id = 3) const uint SPLAT = 0;

const uint kUnitsPerInvocation = 4;

// Offsets of the operands at unit i.
uvec3 strided_offsets(uint i) {
  uvec3 at = uvec3(0);
  for (uint axis = 0; axis + 1 < RANK; ++axis) {
    uint rest = i / p.dims[axis];
    uint along = i - rest * p.dims[axis];
    at += along * uvec3(p.strides_a[axis], p.strides_b[axis], p.strides_c[axis]);
    i = rest;
  }
  return at + i * uvec3(p.strides_a[RANK - 1], p.strides_b[RANK - 1], p.strides_c[RANK - 1]);
}

void vector(uint i, uvec3 at);
void single(uint i, uvec3 at);

void main() {
  uint units_per_group = gl_WorkGroupSize.x * kUnitsPerInvocation;
  if (flat_workgroup() > p.count / units_per_group) return;
  // A subgroup reads one run of memory.
  uint run = min(gl_SubgroupSize, gl_WorkGroupSize.x);
  uint lane = gl_LocalInvocationIndex % run;
  uint first = flat_workgroup() * units_per_group + (gl_LocalInvocationIndex - lane) * kUnitsPerInvocation + lane;
  if (VECTOR && RANK == 1 && flat_workgroup() == 0 && gl_LocalInvocationIndex < p.dims[0] % 4) {
    // The only axis may leave a remainder; its length stands in dims[0].
    uint i = p.count * 4 + gl_LocalInvocationIndex;
    single(i, uvec3((SPLAT & 1u) != 0 ? 0 : i, (SPLAT & 2u) != 0 ? 0 : i, (SPLAT & 4u) != 0 ? 0 : i));
  }
  for (uint k = 0; k < kUnitsPerInvocation; ++k) {
    uint i = first + k * run;
    if (i >= p.count) return;
    if (VECTOR) {
      vector(i, strided_offsets(i));
    } else {
      single(i, strided_offsets(i));
    }
  }
}

#endif

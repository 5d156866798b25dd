// main() of kernels that walk contiguous elements: full vectors of four first, then the last count % 4 singly.
// Define after the include: void vector(uint i), elements 4i to 4i+3; void single(uint i), element i.
// Include after layout(local_size_x), for gl_WorkGroupSize is read. The push block needs `uint count`.
// With TABLE (table.glsl) one dispatch walks many tensors.
// The host's twin is emit_flat() in runtime/ops/elementwise.h.
#ifndef GRAFT_FLAT_GLSL
#define GRAFT_FLAT_GLSL
#extension GL_KHR_shader_subgroup_basic : require
#include "shaders/common/table.glsl"

const uint kVectorsPerInvocation = 4;

void vector(uint i);
void single(uint i);

void main() {
  if (!find_tensor()) return;
  uint vectors = p.count / 4;
  uint group = tensor_workgroup();
  // Neighbours read neighbouring memory, and a subgroup one run of it.
  uint run = min(gl_SubgroupSize, gl_WorkGroupSize.x);
  uint lane = gl_LocalInvocationIndex % run;
  uint first = (group * gl_WorkGroupSize.x + gl_LocalInvocationIndex - lane) * kVectorsPerInvocation + lane;
  if (group > vectors / (gl_WorkGroupSize.x * kVectorsPerInvocation)) return;
  for (uint k = 0; k < kVectorsPerInvocation; ++k) {
    uint i = first + k * run;
    if (i < vectors) vector(i);
  }
  if (group == 0 && gl_LocalInvocationIndex < p.count % 4) single(vectors * 4 + gl_LocalInvocationIndex);
}

#endif

//! variant f32 :
//! variant f32_epilogue : -DEPILOGUE=3
#version 450
#extension GL_GOOGLE_include_directive : require
// Second pass of a GEMM whose k was split: adds the parts in their order, then the bias.
layout(local_size_x = 64) in;  // before index.glsl, which reads it
#include "shaders/common/index.glsl"
#include "shaders/fused_elementwise/epilogue.glsl"
#include "shaders/matmul/matmul_split_sum_push.h"

layout(std430, binding = 0) readonly buffer Parts { float parts[]; };
layout(std430, binding = 1) readonly buffer Bias { float bias[]; };  // any buffer without bias
layout(std430, binding = 2) writeonly buffer Out { float y[]; };

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  float sum = p.before != 0 ? parts[p.before + i] : 0.0;
  for (uint split = 0; split < p.splits; ++split) sum += parts[split * p.stride + i];
  if (p.bias_count != 0) sum += bias[i % p.bias_count];
  y[p.to + i] = finished(sum, i, i % p.columns);
}

//! variant f32 : -DSTORE_F32
// The sum of hits[0 .. rows), by one workgroup; whole numbers, exact up to 2^24.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/metric/sum_hits_push.h"
layout(local_size_x = 128) in;
layout(binding = 0) readonly buffer Hits { float hits[]; };
layout(binding = 1) writeonly buffer Count { float count[]; };
shared float partial[gl_WorkGroupSize.x];

void main() {
  uint lid = gl_LocalInvocationIndex;
  float sum = 0.0;
  for (uint r = lid; r < p.rows; r += gl_WorkGroupSize.x) sum += hits[r];
  partial[lid] = sum;
  for (uint step = gl_WorkGroupSize.x / 2; step > 0; step /= 2) {
    barrier();
    if (lid < step) partial[lid] += partial[lid + step];
  }
  if (lid == 0) count[0] = partial[0];
}

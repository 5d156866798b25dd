// acc += x.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/optimizer/accumulate_push.h"

layout(std430, set = 0, binding = 0) buffer Acc { float acc[]; };
layout(std430, set = 0, binding = 1) readonly buffer X { float x[]; };

void main() {
  const uint i = flat_invocation();
  if (i < p.count) acc[i] += x[i];
}

// Where sequences are read from their ends: puts the state before the first step where each of them begins.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
#include "shaders/common/index.glsl"
#include "shaders/rnn/rnn_begin_push.h"

layout(binding = 0) readonly buffer First { float first[]; };
layout(binding = 1) readonly buffer Lengths { int lengths[]; };
layout(binding = 2) writeonly buffer Before { float before[]; };  // [steps, rows, hidden]

void main() {
  const uint i = flat_invocation();
  if (i >= p.count) return;
  const uint step = uint(max(lengths[i / p.hidden], 0)) - 1u - p.step;  // wraps where it is another binding's
  if (step < p.steps) before[step * p.count + i] = first[i];
}

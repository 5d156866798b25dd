// Sets the first words of a buffer.
//! variant w32 :
//! variant w32_table : -DTABLE -DTABLE_BINDING=1
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/fill_words_push.h"
#include "shaders/common/table.glsl"

layout(std430, set = 0, binding = 0) writeonly buffer To { uint to_words[]; };

void main() {
  if (!find_tensor()) return;
  const uint i = tensor_workgroup() * gl_WorkGroupSize.x + gl_LocalInvocationIndex;
  if (i < p.count) to_words[BASE(0) + i] = p.word;
}

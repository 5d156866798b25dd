// Sets the first words of a buffer.
//! variant w32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/common/fill_words_push.h"

layout(std430, set = 0, binding = 0) writeonly buffer To { uint to_words[]; };

void main() {
  const uint i = flat_invocation();
  if (i < p.count) to_words[i] = p.word;
}

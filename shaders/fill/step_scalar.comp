//! variant f32 : -DSTORE_F32
// y = one word of the step state.
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/fill/step_scalar_push.h"
layout(local_size_x = 1) in;
layout(binding = 0) readonly buffer State { uint state[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };

void main() { y[0] = state[p.word]; }

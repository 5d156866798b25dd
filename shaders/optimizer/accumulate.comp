// acc += x.
//! variant f32 :
//! variant f32_table : -DTABLE -DTABLE_BINDING=2
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/optimizer/accumulate_push.h"
#include "shaders/common/flat.glsl"

layout(std430, set = 0, binding = 0) writeonly buffer Acc { float acc[]; };
layout(std430, set = 0, binding = 0) writeonly buffer AccVectors { vec4 acc4[]; };
layout(std430, set = 0, binding = 0) readonly buffer AccBefore { float acc_before[]; };
layout(std430, set = 0, binding = 0) readonly buffer AccVectorsBefore { vec4 acc4_before[]; };
layout(std430, set = 0, binding = 1) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) readonly buffer XVectors { vec4 x4[]; };

void vector(uint i) { acc4[BASE4(0) + i] = acc4_before[BASE4(0) + i] + x4[BASE4(1) + i]; }
void single(uint i) { acc[BASE(0) + i] = acc_before[BASE(0) + i] + x[BASE(1) + i]; }

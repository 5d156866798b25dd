// The 128 invocations of a workgroup of attention; before anything that reads their number.
#ifdef ATTENTION_COOPMAT
#extension GL_EXT_control_flow_attributes : require
#include "shaders/common/matrix_operands.glsl"
#endif
layout(local_size_x = 128) in;

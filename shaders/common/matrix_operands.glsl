// What a device's matrix units multiply: f16, or with MATRIX_BF16 bf16. HALF and HALF4 are one and four of them, made of
// what before_half() gives.
#ifndef GRAFT_MATRIX_OPERANDS_GLSL
#define GRAFT_MATRIX_OPERANDS_GLSL
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#ifdef MATRIX_BF16
#extension GL_EXT_bfloat16 : require
#include "shaders/common/round16.glsl"
#define HALF bfloat16_t
#define HALF4 bf16vec4
// Whether operands have more bits than bf16. Such are rounded first: which way a conversion does is up to the device.
layout(constant_id = 27) const bool kRounds = true;

float before_half(float x) { return kRounds ? round_bf16(x) : x; }
vec4 before_half4(vec4 v) { return vec4(before_half(v.x), before_half(v.y), before_half(v.z), before_half(v.w)); }
#else
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define HALF float16_t
#define HALF4 f16vec4

float before_half(float x) { return x; }
vec4 before_half4(vec4 v) { return v; }
#endif
#endif

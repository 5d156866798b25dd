#version 450
#extension GL_EXT_bfloat16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
// Compiles where glslang knows bfloat16 as a type, also of cooperative matrices.
layout(local_size_x = 32) in;
layout(std430, binding = 0) buffer Y { float y[]; };
shared uvec2 tile[64];

void main() {
  coopmat<bfloat16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
  coopMatLoad(a, tile, 0, 4, gl_CooperativeMatrixLayoutRowMajor);
  y[0] = float(a[0]);
}

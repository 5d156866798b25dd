#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
// Compiles where glslang knows cooperative matrices, with sizes that are specialized.
layout(constant_id = 0) const uint kM = 16;
layout(local_size_x = 32) in;
layout(std430, binding = 0) buffer Y { float y[]; };
shared f16vec4 tile[64];

void main() {
  coopmat<float16_t, gl_ScopeSubgroup, kM, kM, gl_MatrixUseA> a;
  coopmat<float16_t, gl_ScopeSubgroup, kM, kM, gl_MatrixUseB> b;
  coopmat<float, gl_ScopeSubgroup, kM, kM, gl_MatrixUseAccumulator> c =
      coopmat<float, gl_ScopeSubgroup, kM, kM, gl_MatrixUseAccumulator>(0.0);
  coopMatLoad(a, tile, 0, 4, gl_CooperativeMatrixLayoutRowMajor);
  coopMatLoad(b, tile, 0, 4, gl_CooperativeMatrixLayoutColumnMajor);
  c = coopMatMulAdd(a, b, c);
  coopMatStore(c, y, 0, kM, gl_CooperativeMatrixLayoutRowMajor);
}

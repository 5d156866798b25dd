#version 450
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix2 : require
// Compiles where glslang knows operations on single elements of cooperative matrices.
layout(local_size_x = 32) in;
layout(std430, binding = 0) buffer Y { float y[]; };

float store(const in uint row, const in uint column, const in float value, const in uint stride) {
  y[row * stride + column] = value;
  return value;
}

void main() {
  coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> c =
      coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
  coopMatPerElementNV(c, c, store, 16u);
}

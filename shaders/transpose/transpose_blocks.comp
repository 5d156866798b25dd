// A batch of matrix transposes of 32-bit words without shared memory, for devices where that is one more copy (CPUs):
// an invocation turns a block of 4 x 4 in registers. Rows and columns are multiples of four.
//! variant w32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
#include "shaders/common/index.glsl"
#include "shaders/transpose/transpose_tiled_push.h"

layout(std430, set = 0, binding = 0) readonly buffer X { uvec4 x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Y { uvec4 y[]; };

void main() {
  // A tile is 32 x 32 words. Eight neighbouring invocations read whole cache lines of 8 rows and write those of 16.
  const uint lane = gl_LocalInvocationIndex;
  const uint tiles = p.row_tiles * p.col_tiles;
  const uint batch = flat_workgroup() / tiles;
  if (batch >= p.batch) return;
  const uint in_batch = flat_workgroup() - batch * tiles;
  const uint row = in_batch / p.col_tiles * 8 + (lane / 8 % 4) * 2 + lane % 2;  // in blocks of four
  const uint col = in_batch % p.col_tiles * 8 + lane / 32 * 4 + lane / 2 % 4;
  if (row * 4 >= p.rows || col * 4 >= p.cols) return;
  const uint base = batch * p.rows * (p.cols / 4);
  const uint from = base + row * p.cols + col;
  const uvec4 a = x[from];
  const uvec4 b = x[from + p.cols / 4];
  const uvec4 c = x[from + p.cols / 2];
  const uvec4 d = x[from + p.cols / 4 * 3];
  const uint to = base + col * p.rows + row;
  y[to] = uvec4(a.x, b.x, c.x, d.x);
  y[to + p.rows / 4] = uvec4(a.y, b.y, c.y, d.y);
  y[to + p.rows / 2] = uvec4(a.z, b.z, c.z, d.z);
  y[to + p.rows / 4 * 3] = uvec4(a.w, b.w, c.w, d.w);
}

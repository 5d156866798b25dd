// A batch of matrix transposes of 32-bit words: a workgroup moves one 16x16 tile through shared memory.
//! variant w32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 16, local_size_y = 8) in;
#include "shaders/common/index.glsl"
#include "shaders/transpose/transpose_tiled_push.h"

layout(std430, set = 0, binding = 0) readonly buffer X { uint x[]; };
layout(std430, set = 0, binding = 1) writeonly buffer Y { uint y[]; };

const uint TILE = 16u;
shared uint tile[TILE][TILE + 1u];  // the odd pitch keeps the columns in different banks

void main() {
  const uint flat_tile = flat_workgroup();
  const uint tiles = p.row_tiles * p.col_tiles;
  const uint batch = flat_tile / tiles;
  if (batch >= p.batch) return;  // the whole workgroup
  const uint in_batch = flat_tile - batch * tiles;
  const uint row0 = in_batch / p.col_tiles * TILE;
  const uint col0 = in_batch % p.col_tiles * TILE;
  const uint base = batch * p.rows * p.cols;
  const uint lane = gl_LocalInvocationID.x;
  for (uint i = gl_LocalInvocationID.y; i < TILE; i += 8u) {
    const uint row = row0 + i;
    const uint col = col0 + lane;
    if (row < p.rows && col < p.cols) tile[i][lane] = x[base + row * p.cols + col];
  }
  barrier();
  for (uint i = gl_LocalInvocationID.y; i < TILE; i += 8u) {
    const uint row = row0 + lane;
    const uint col = col0 + i;
    if (row < p.rows && col < p.cols) y[base + col * p.rows + row] = tile[lane][i];
  }
}

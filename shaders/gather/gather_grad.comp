// The gradient of gather without scattering: the owner of a slice scans all indices and adds up, in order, the
// slices of dy that were taken from it. Matches of 128 indices at a time become bits in shared memory.
//! variant f32 :
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/gather/gather_grad_push.h"

layout(std430, set = 0, binding = 0) readonly buffer Indices { int indices[]; };
layout(std430, set = 0, binding = 1) readonly buffer Dy { float dy[]; };
layout(std430, set = 0, binding = 2) writeonly buffer Dx { float dx[]; };

const uint COLUMNS = 4u;  // of a lane
shared uint matches[4];

int wrapped(uint j) {
  const int index = indices[j];
  return index < 0 ? index + int(p.axis_size) : index;
}

void main() {
  const uint lane = gl_LocalInvocationIndex;
  const uint flat_group = flat_workgroup();
  const uint row = flat_group / p.column_tiles;
  if (row >= p.rows) return;  // the whole workgroup, here and below
  const int target = p.by_index != 0u ? wrapped(row) : int(p.first + row);
  if (target < int(p.first) || target >= int(p.first + p.count)) return;

  const uint first_column = (flat_group - row * p.column_tiles) * 128u * COLUMNS + lane;
  float sum[COLUMNS];
  uint from[COLUMNS];  // in dy, for index 0
  for (uint c = 0u; c < COLUMNS; ++c) {
    const uint column = first_column + 128u * c;
    sum[c] = 0.0;
    from[c] = column / p.inner * p.index_count * p.inner + column % p.inner;
  }
  for (uint base = 0u; base < p.index_count; base += 128u) {
    if (lane < 4u) matches[lane] = 0u;
    barrier();
    const uint j = base + lane;
    if (j < p.index_count && wrapped(j) == target) atomicOr(matches[lane >> 5u], 1u << (lane & 31u));
    barrier();
    for (uint word = 0u; word < 4u; ++word) {
      uint bits = matches[word];
      while (bits != 0u) {
        const uint match = base + 32u * word + uint(findLSB(bits));
        bits &= bits - 1u;
        if (p.by_index != 0u && match < row) return;  // an earlier index owns the slice
        for (uint c = 0u; c < COLUMNS; ++c) {
          if (first_column + 128u * c < p.columns) sum[c] += dy[from[c] + match * p.inner];
        }
      }
    }
    barrier();
  }
  for (uint c = 0u; c < COLUMNS; ++c) {
    const uint column = first_column + 128u * c;
    if (column >= p.columns) continue;
    dx[(column / p.inner * p.axis_size + uint(target) - p.first) * p.inner + column % p.inner] = sum[c];
  }
}

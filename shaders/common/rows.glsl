// Rows shared by SLICES invocations each, and sums and maxima over a row in a fixed tree. A row's elements stand
// `p.inner` apart: row r = (outer, inner index) starts at (r / inner) * columns * inner + r % inner.
// Include after layout(local_size_x); the push block needs `uint rows; uint columns; uint inner;`. Every invocation of
// a workgroup must take part in row_max() and row_sum(), also where row_is_real() is false.
// A kernel may walk its rows four columns at a time:
//   for (uint c = row_first(); c < columns; c += ROW_STEP)
// with ROW_LOAD and ROW_STORE on buffers that are declared twice, as float x[] and as vec4 x_quads[]. Component i is
// column row_column(c, i), which may lie past the row where VECTOR is false.
// The host's twin is row_schedule() in runtime/ops/rows.h.
#ifndef GRAFT_ROWS_GLSL
#define GRAFT_ROWS_GLSL
#extension GL_EXT_control_flow_attributes : require
#include "shaders/common/index.glsl"
#include "shaders/common/math.glsl"

layout(constant_id = 0) const uint SLICES = 1;          // a power of two
layout(constant_id = 1) const bool ROWS_FIRST = false;  // neighbouring invocations: rows, or slices of one
layout(constant_id = 2) const bool VECTOR = false;      // rows are contiguous, of a multiple of four columns

const uint kRowsPerGroup = gl_WorkGroupSize.x / SLICES;
shared float shared_row[gl_WorkGroupSize.x];

uint row_slice() { return ROWS_FIRST ? gl_LocalInvocationIndex / kRowsPerGroup : gl_LocalInvocationIndex % SLICES; }
uint row_index() {
  uint lane = ROWS_FIRST ? gl_LocalInvocationIndex % kRowsPerGroup : gl_LocalInvocationIndex / SLICES;
  return flat_workgroup() * kRowsPerGroup + lane;
}
bool row_is_real() { return flat_workgroup() <= (p.rows - 1) / kRowsPerGroup && row_index() < p.rows; }
uint row_start() {
  uint outer = row_index() / p.inner;
  return outer * p.columns * p.inner + (row_index() - outer * p.inner);
}

const uint ROW_STEP = 4 * SLICES;
uint row_first() { return VECTOR ? 4 * row_slice() : row_slice(); }
uint row_column(uint c, uint i) { return VECTOR ? c + i : c + i * SLICES; }

/// Declares vec4 `value`: four columns of the row at `start`, and `none` where there is no column.
#define ROW_LOAD(value, name, start, c, columns, none)                                    \
  vec4 value = vec4(none);                                                                \
  if (VECTOR) {                                                                           \
    value = name##_quads[((start) + (c)) / 4];                                            \
  } else {                                                                                \
    [[unroll]] for (uint i_ = 0; i_ < 4; ++i_) {                                          \
      const uint column_ = row_column(c, i_);                                             \
      if (column_ < (columns)) value[i_] = name[(start) + column_ * p.inner];             \
    }                                                                                     \
  }
#define ROW_STORE(name, start, c, columns, value)                                         \
  if (VECTOR) {                                                                           \
    name##_quads[((start) + (c)) / 4] = value;                                            \
  } else {                                                                                \
    [[unroll]] for (uint i_ = 0; i_ < 4; ++i_) {                                          \
      const uint column_ = row_column(c, i_);                                             \
      if (column_ < (columns)) name[(start) + column_ * p.inner] = (value)[i_];           \
    }                                                                                     \
  }

float sum_of(vec4 v) { return (v.x + v.y) + (v.z + v.w); }

float row_tree(float value, bool take_max) {
  if (SLICES == 1) return value;
  uint lid = gl_LocalInvocationIndex;
  uint stride = ROWS_FIRST ? kRowsPerGroup : 1;
  barrier();  // the tree before has been read
  shared_row[lid] = value;
  for (uint step = SLICES / 2; step > 0; step /= 2) {
    barrier();
    if (row_slice() < step) {
      float other = shared_row[lid + step * stride];
      value = take_max ? max_nan(value, other) : value + other;
      shared_row[lid] = value;
    }
  }
  barrier();
  return shared_row[ROWS_FIRST ? lid % kRowsPerGroup : lid - lid % SLICES];
}
float row_max(float value) { return row_tree(value, true); }
float row_sum(float value) { return row_tree(value, false); }

#endif

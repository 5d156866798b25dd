// How the normalisation kernels walk [batches, rows, cols], and statistics. Needs norm_push.h before it.
#ifndef GRAFT_NORM_GLSL
#define GRAFT_NORM_GLSL

// A lane has four neighbouring columns, all of one group or each a group, else one in the first component. The host's
// twin is four_columns() in runtime/ops/norm/columns.cpp.
layout(constant_id = 0) const bool VECTOR = false;

// read_NAME(i) and write_NAME(i, value) of a buffer that is declared as float NAME[] and as vec4 NAME_quads[].
#define COLUMNS_READ(name)                                            \
  vec4 read_##name(uint i) {                                          \
    if (VECTOR) return name##_quads[i / 4];                           \
    return vec4(name[i]);                                             \
  }
#define COLUMNS_WRITE(name)                                           \
  void write_##name(uint i, vec4 value) {                             \
    if (VECTOR) name##_quads[i / 4] = value; else name[i] = value.x;  \
  }
// The same of a statistic: one value for each group.
#define STATISTIC_READ(name)                                          \
  vec4 read_##name(uint i) {                                          \
    if (VECTOR && p.group_cols == 1u) return name##_quads[i / 4];     \
    return vec4(name[i]);                                             \
  }

uint stat_index(uint row, uint col) { return row / p.stat_rows * p.groups + col / p.group_cols; }

vec4 rstd_of(vec4 stat) { return p.stat_is_variance != 0u ? inversesqrt(stat + p.epsilon) : stat; }

// Where one invocation stands: its columns, and the rows it takes.
struct ColumnWalk {
  bool valid;      // the workgroup has work
  uint batch;
  uint chunk;
  uint col;        // the first; may be >= p.cols: such lanes take no rows
  uint begin;      // first row of this lane within the batch
  uint end;
  uint step;
};

ColumnWalk column_walk() {
  ColumnWalk w;
  const uint lane = gl_LocalInvocationIndex;
  uint flat_group = flat_workgroup();
  const uint tile = flat_group % p.col_tiles;
  flat_group /= p.col_tiles;
  w.chunk = flat_group % p.chunks;
  w.batch = flat_group / p.chunks;
  w.valid = w.batch < p.batches;
  w.col = ((tile << p.lane_shift) + (lane & ((1u << p.lane_shift) - 1u))) * (VECTOR ? 4u : 1u);
  w.step = 128u >> p.lane_shift;
  w.begin = w.chunk * p.chunk_rows + (lane >> p.lane_shift);
  w.end = w.col < p.cols ? min((w.chunk + 1u) * p.chunk_rows, p.rows) : 0u;
  return w;
}

// Partial results are two planes of [batches, chunks, cols]: where the first of a lane's columns stands in either.
uint partial_index(ColumnWalk w) { return (w.batch * p.chunks + w.chunk) * p.cols + w.col; }
uint partial_plane() { return p.batches * p.chunks * p.cols; }

// Rows in one chunk.
uint rows_in(uint chunk) { return min(p.chunk_rows, p.rows - chunk * p.chunk_rows); }

#endif

// Indices and statistics shared by the normalisation kernels. Needs norm_push.h before it.
#ifndef GRAFT_NORM_GLSL
#define GRAFT_NORM_GLSL

uint stat_index(uint row, uint col) { return row / p.stat_rows * p.groups + col / p.group_cols; }

float rstd_of(float stat) { return p.stat_is_variance != 0u ? inversesqrt(stat + p.epsilon) : stat; }

// Where one invocation stands in a reduction over rows: its column, and the rows it takes.
struct ColumnWalk {
  bool valid;      // the workgroup has work
  uint batch;
  uint chunk;
  uint col;        // may be >= p.cols: such lanes take no rows
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
  w.col = (tile << p.lane_shift) + (lane & ((1u << p.lane_shift) - 1u));
  w.step = 128u >> p.lane_shift;
  w.begin = w.chunk * p.chunk_rows + (lane >> p.lane_shift);
  w.end = w.col < p.cols ? min((w.chunk + 1u) * p.chunk_rows, p.rows) : 0u;
  return w;
}

uint partial_index(ColumnWalk w) { return (w.batch * p.chunks + w.chunk) * p.cols + w.col; }

// Rows in one chunk.
uint rows_in(uint chunk) { return min(p.chunk_rows, p.rows - chunk * p.chunk_rows); }

#endif

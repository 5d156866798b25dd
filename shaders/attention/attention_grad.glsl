// Weights and their gradients, computed anew for a tile of rows and keys; for the two kernels of the gradient.
// Each invocation keeps those of its own rows and keys (see attention.glsl).
layout(binding = 0) readonly buffer Q1 { float q1[]; };
layout(binding = 0) readonly buffer Q4 { vec4 q4[]; };
layout(binding = 1) readonly buffer K1 { float k1[]; };
layout(binding = 1) readonly buffer K4 { vec4 k4[]; };
layout(binding = 2) readonly buffer V1 { float v1[]; };
layout(binding = 2) readonly buffer V4 { vec4 v4[]; };
layout(binding = 3) readonly buffer Dy1 { float dy1[]; };
layout(binding = 3) readonly buffer Dy4 { vec4 dy4[]; };
layout(binding = 4) readonly buffer Statistics { vec2 statistics[]; };  // lse, and the sum of dy * o
#define SIGHT 5
#include "shaders/attention/attention_sight.glsl"
#include "shaders/attention/attention_grad_place.glsl"
HEAD_LOADER(q)
HEAD_LOADER(k)
HEAD_LOADER(v)
HEAD_LOADER(dy)

// Whether some row of the tile sees some key of it; left to the weights where there are no sequences. `tile`: see
// any_sees().
bool any_pair(Head h, uint row_tile, uint key_tile, int offset, uint tile) {
  if (p.has_sequences == 0u) return true;
  bool mine = false;
  for (uint i = 0u; i < 8u; ++i) {
    const uint row = row_tile * kTile + ty() + 16u * (i / 4u);
    const uint key = key_tile * kTile + tx() + 8u * (i % 4u);
    mine = mine || sees(row, key, offset, sequence(h, row / p.group), sequence(h, key));
  }
  return any_sees(mine, tile);
}

// Softmax weights of the tile and the gradients of its products of query and key.
void recompute(Head h, uint row_tile, uint key_tile, int offset, out vec4 weight[2], out vec4 slope[2]) {
  vec4 products[2] = {vec4(0.0), vec4(0.0)};
  slope[0] = slope[1] = vec4(0.0);
  for (uint slab = 0u; slab < SLABS; ++slab) {
    barrier();  // the tiles before have been read
    FILL_TILE(left_tile, q, row_base, h, row_tile * kTile, row_count(), slab)
    FILL_TILE(right_tile, k, key_base, h, key_tile * kTile, p.keys, slab)
    barrier();
    multiply_tiles(products[0], products[1]);
  }
  for (uint slab = 0u; slab < SLABS; ++slab) {
    barrier();
    FILL_TILE(left_tile, dy, row_base, h, row_tile * kTile, row_count(), slab)
    FILL_TILE(right_tile, v, key_base, h, key_tile * kTile, p.keys, slab)
    barrier();
    multiply_tiles(slope[0], slope[1]);
  }
  for (uint r = 0u; r < 2u; ++r) {
    const uint row = row_tile * kTile + ty() + 16u * r;
    const bool real = row < row_count();
    const uint at = real ? row_statistic(h, row) : 0u;
    const float row_lse = statistics[at].x;
    const float row_delta = statistics[at].y;
    const int row_sequence = sequence(h, row / p.group);
    for (uint c = 0u; c < 4u; ++c) {
      const uint key = key_tile * kTile + tx() + 8u * c;
      const float s = score(products[r][c]);
      const float full = masked(h, row, key, s);
      const bool seen = sees(row, key, offset, row_sequence, sequence(h, key)) && !(full <= kMasked);
      const float w = seen ? exp_accurate(full - row_lse) : 0.0;
      weight[r][c] = w;
      slope[r][c] = seen ? w * (slope[r][c] - row_delta) * score_slope(s) : 0.0;
    }
  }
}

// Puts a tile's numbers where all invocations see them.
void share(vec4 numbers[2]) {
  for (uint r = 0u; r < 2u; ++r) {
    for (uint c = 0u; c < 4u; ++c) set_weight(ty() + 16u * r, tx() + 8u * c, numbers[r][c]);
  }
}

// dq: a workgroup takes 32 rows through all keys that they see.
//! variant f32 :
//! variant f32_mask : -DMASK
//! requires coopmat
//! variant f32_coopmat : -DATTENTION_COOPMAT
//! requires coopmat bfloat16
//! variant f32_coopmat_bf16 : -DATTENTION_COOPMAT -DMATRIX_BF16
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/attention/attention_threads.glsl"
#include "shaders/common/step_state.h"
#include "shaders/attention/attention_push.h"
#include "shaders/attention/attention.glsl"
#include "shaders/attention/attention_grad.glsl"
layout(binding = 6) writeonly buffer Dq1 { float dq1[]; };
layout(binding = 6) writeonly buffer Dq4 { vec4 dq4[]; };
HEAD_STORER(dq)

void main() {
  const uint group = flat_workgroup();
  if (group >= p.batch * p.kv_heads * p.row_tiles) return;
  const uint tile = group % p.row_tiles;
  const Head h = Head(group / p.row_tiles / p.kv_heads, group / p.row_tiles % p.kv_heads);
  const int offset = first_place();
  vec4 result[2 * SLABS];
  for (uint i = 0u; i < 2u * SLABS; ++i) result[i] = vec4(0.0);

  const uvec2 range = key_tile_range(tile, offset);
  for (uint key_tile = range.x; key_tile < range.y; ++key_tile) {
    if (!any_pair(h, tile, key_tile, offset, key_tile)) continue;
    vec4 weight[2];
    vec4 slope[2];
    recompute(h, tile, key_tile, offset, weight, slope);
    share(slope);
    for (uint slab = 0u; slab < SLABS; ++slab) {
      barrier();  // the tile before has been read
      FILL_TILE(right_tile, k, key_base, h, key_tile * kTile, p.keys, slab)
      barrier();
      add_weighted(result[2u * slab], result[2u * slab + 1u]);
    }
  }
  for (uint r = 0u; r < 2u; ++r) {
    const uint row = tile * kTile + ty() + 16u * r;
    if (row >= row_count()) continue;
    for (uint slab = 0u; slab < SLABS; ++slab) {
      store_dq(row_base(h, row), slab * kTile + tx() * 4u, result[2u * slab + r]);
    }
  }
}

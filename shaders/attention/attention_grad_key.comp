// dk and dv: a workgroup takes 32 keys through all rows that see them, the heads of their group in a fixed order.
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
layout(binding = 6) writeonly buffer Dk1 { float dk1[]; };
layout(binding = 6) writeonly buffer Dk4 { vec4 dk4[]; };
layout(binding = 7) writeonly buffer Dv1 { float dv1[]; };
layout(binding = 7) writeonly buffer Dv4 { vec4 dv4[]; };
HEAD_STORER(dk)
HEAD_STORER(dv)

void main() {
  const uint group = flat_workgroup();
  if (group >= p.batch * p.kv_heads * p.key_tiles) return;
  const uint tile = group % p.key_tiles;
  const Head h = Head(group / p.key_tiles / p.kv_heads, group / p.key_tiles % p.kv_heads);
  const int offset = first_place();
  vec4 dk[2 * SLABS];
  vec4 dv[2 * SLABS];
  for (uint i = 0u; i < 2u * SLABS; ++i) dk[i] = dv[i] = vec4(0.0);

  const uvec2 range = row_tile_range(tile, offset);
  for (uint row_tile = range.x; row_tile < range.y; ++row_tile) {
    if (!any_pair(h, row_tile, tile, offset, row_tile)) continue;
    vec4 weight[2];
    vec4 slope[2];
    recompute(h, row_tile, tile, offset, weight, slope);
    share(weight);
    for (uint slab = 0u; slab < SLABS; ++slab) {
      barrier();  // the tile before has been read
      FILL_TILE(left_tile, dy, row_base, h, row_tile * kTile, row_count(), slab)
      barrier();
      add_columns(dv[2u * slab], dv[2u * slab + 1u]);
    }
    barrier();  // the weights have been read
    share(slope);
    for (uint slab = 0u; slab < SLABS; ++slab) {
      barrier();
      FILL_TILE(left_tile, q, row_base, h, row_tile * kTile, row_count(), slab)
      barrier();
      add_columns(dk[2u * slab], dk[2u * slab + 1u]);
    }
  }
  for (uint r = 0u; r < 2u; ++r) {
    const uint key = tile * kTile + ty() + 16u * r;
    if (key >= p.keys) continue;
    for (uint slab = 0u; slab < SLABS; ++slab) {
      store_dk(key_base(h, key), slab * kTile + tx() * 4u, dk[2u * slab + r]);
      store_dv(key_base(h, key), slab * kTile + tx() * 4u, dv[2u * slab + r]);
    }
  }
}

// Attention with an online softmax (Milakov and Gimelshein 2018; Dao et al. 2022): a workgroup takes 32 rows through
// all keys, 32 at a time, and keeps each row's maximum, sum and weighted values.
//! variant f32 :
//! variant f32_mask : -DMASK
//! variant f32_blocks : -DBLOCKS
//! requires coopmat
//! variant f32_coopmat : -DATTENTION_COOPMAT
//! requires coopmat bfloat16
//! variant f32_coopmat_bf16 : -DATTENTION_COOPMAT -DMATRIX_BF16
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/attention/attention_threads.glsl"
#include "shaders/attention/attention_push.h"
#include "shaders/attention/attention.glsl"

layout(binding = 0) readonly buffer Q1 { float q1[]; };
layout(binding = 0) readonly buffer Q4 { vec4 q4[]; };
#ifndef BLOCKS
layout(binding = 1) readonly buffer K1 { float k1[]; };
layout(binding = 1) readonly buffer K4 { vec4 k4[]; };
layout(binding = 2) readonly buffer V1 { float v1[]; };
layout(binding = 2) readonly buffer V4 { vec4 v4[]; };
#endif
layout(binding = 4) readonly buffer State { uint state_words[]; };
#include "shaders/attention/attention_step_place.glsl"
layout(binding = 5) writeonly buffer O1 { float o1[]; };
layout(binding = 5) writeonly buffer O4 { vec4 o4[]; };
layout(binding = 6) writeonly buffer Lse { float lse[]; };
HEAD_LOADER(q)
#ifdef BLOCKS
#include "shaders/attention/attention_operands.glsl"
vec4 load_k(uint base, uint d) { return d < p.dim ? k_at((base + d) / 4u) : vec4(0.0); }
vec4 load_v(uint base, uint d) { return d < p.dim ? v_at((base + d) / 4u) : vec4(0.0); }
#else
HEAD_LOADER(k)
HEAD_LOADER(v)
#endif
HEAD_STORER(o)

#define SIGHT 3
#include "shaders/attention/attention_sight.glsl"

void main() {
  const uint group = flat_workgroup();
  if (group >= p.batch * p.kv_heads * p.row_tiles) return;
  const uint tile = group % p.row_tiles;
  const Head h = Head(group / p.row_tiles / p.kv_heads, group / p.row_tiles % p.kv_heads);
  const Head keys = Head(place_slot(h.batch), h.kv);
  const int offset = first_query(h.batch);
  const uint rows[2] = {tile * kTile + ty(), tile * kTile + ty() + 16u};
  const int row_sequence[2] = {sequence(h, rows[0] / p.group), sequence(h, rows[1] / p.group)};

  vec2 top = vec2(kMasked);  // maximum of each row so far
  vec2 total = vec2(0.0);
  vec4 result[2 * SLABS];
  for (uint i = 0u; i < 2u * SLABS; ++i) result[i] = vec4(0.0);

  const uvec2 range = key_tile_range(tile, offset);
  for (uint key_tile = range.x; key_tile < range.y; ++key_tile) {
    if (p.has_sequences != 0u) {
      bool mine = false;
      for (uint i = 0u; i < 8u; ++i) {
        const uint key = key_tile * kTile + tx() + 8u * (i % 4u);
        mine = mine || sees(rows[i / 4u], key, offset, row_sequence[i / 4u], sequence(h, key));
      }
      if (!any_sees(mine, key_tile)) continue;
    }
    vec4 scores[2] = {vec4(0.0), vec4(0.0)};
    for (uint slab = 0u; slab < SLABS; ++slab) {
      barrier();  // the tiles before have been read
      FILL_TILE(left_tile, q, row_base, h, tile * kTile, row_count(), slab)
      FILL_TILE(right_tile, k, key_base, keys, key_tile * kTile, p.keys, slab)
      barrier();
      multiply_tiles(scores[0], scores[1]);
    }
    for (uint c = 0u; c < 4u; ++c) {
      const uint key = key_tile * kTile + tx() + 8u * c;
      const int key_sequence = sequence(h, key);
      for (uint r = 0u; r < 2u; ++r) {
        const bool seen = sees(rows[r], key, offset, row_sequence[r], key_sequence);
        scores[r][c] = seen ? masked(h, rows[r], key, score(scores[r][c])) : kMasked;
        weights[(ty() + 16u * r) * kWeightRow + tx() + 8u * c] = scores[r][c];
      }
    }
    barrier();
    vec2 highest = top;
    for (uint key = 0u; key < kTile; ++key) {
      highest = max(highest, vec2(weights[ty() * kWeightRow + key], weights[(ty() + 16u) * kWeightRow + key]));
    }
    const vec2 shrink = vec2(exp_accurate(top.x - highest.x), exp_accurate(top.y - highest.y));
    top = highest;
    barrier();  // all maxima are taken
    for (uint c = 0u; c < 4u; ++c) {
      for (uint r = 0u; r < 2u; ++r) {
        const float s = scores[r][c];
        set_weight(ty() + 16u * r, tx() + 8u * c, s == kMasked ? 0.0 : exp_accurate(s - top[r]));
      }
    }
    total *= shrink;
    for (uint slab = 0u; slab < SLABS; ++slab) {
      if (slab != 0u) barrier();  // the values before have been read
      FILL_TILE(right_tile, v, key_base, keys, key_tile * kTile, p.keys, slab)
      barrier();
      vec4 upper = result[2u * slab] * shrink.x;
      vec4 lower = result[2u * slab + 1u] * shrink.y;
#ifdef ATTENTION_COOPMAT
      add_weighted(upper, lower);
      for (uint key = 0u; slab == 0u && key < kTile; ++key) {
        total += vec2(weights[ty() * kWeightRow + key], weights[(ty() + 16u) * kWeightRow + key]);
      }
#else
      for (uint key = 0u; key < kTile; ++key) {
        const vec2 weight = vec2(weights[ty() * kWeightRow + key], weights[(ty() + 16u) * kWeightRow + key]);
        const vec4 value = right_tile[key * kRow + tx()];
        upper += weight.x * value;
        lower += weight.y * value;
        if (slab == 0u) total += weight;
      }
#endif
      result[2u * slab] = upper;
      result[2u * slab + 1u] = lower;
    }
  }
  for (uint r = 0u; r < 2u; ++r) {
    if (rows[r] >= row_count()) continue;
    const bool any = total[r] != 0.0;  // a row that sees no key gives zeros
    for (uint slab = 0u; slab < SLABS; ++slab) {
      const vec4 value = any ? result[2u * slab + r] / total[r] : vec4(0.0);
      store_o(row_base(h, rows[r]), slab * kTile + tx() * 4u, value);
    }
    if (tx() == 0u) lse[row_statistic(h, rows[r])] = any ? top[r] + log_accurate(total[r]) : -inf();
  }
}

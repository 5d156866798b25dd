// attention_grad_key.comp for CPUs (see attention_lanes.glsl): held keys, rows of each lane's own.
//! variant f32 :
//! variant f32_mask : -DMASK
//! variant f32_apart : -DAPART
//! variant f32_mask_apart : -DAPART -DMASK
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/attention/attention_lanes.glsl"
#include "shaders/attention/attention_lanes_grad.glsl"
layout(binding = 6) writeonly buffer Dk4 { vec4 dk4[]; };
layout(binding = 7) writeonly buffer Dv4 { vec4 dv4[]; };
#define q4_at(i) q4[i]
#define dy4_at(i) dy4[i]

void main() {
  const uint group = flat_workgroup() * kClusters + own_cluster();
  if (group >= p.batch * p.kv_heads * p.key_tiles) return;
  const uint lane = own_lane();
  const uint first_key = group % p.key_tiles * kRows;
  const Head h = Head(group / p.key_tiles / p.kv_heads, group / p.key_tiles % p.kv_heads);
  const int offset = first_place();

  uint held_at[kHeld];
  int key_sequence[kHeld];
  ivec2 span = kNothing;
  [[unroll]] for (uint i = 0u; i < kHeld; ++i) {
    const uint key = held_row(first_key, i);
    held_at[i] = key_base(h, min(key, p.keys - 1u)) / 4u;
    key_sequence[i] = sequence(h, key);
    span = with_sequence(span, key_sequence[i]);
  }
  span = over_lanes_span(span);
  uint columns[kQuads];
  SET_COLUMNS(columns)
  vec4 dk[kRows * kQuads];
  vec4 dv[kRows * kQuads];
  [[unroll]] for (uint i = 0u; i < kRows * kQuads; ++i) dk[i] = dv[i] = vec4(0.0);

  const uvec2 range = rows_of_keys(first_key, kRows, offset);
  uint row = next_rows(h, range.x, range.y, span);
  if (row < range.y) {
    [[dont_unroll]] do {
      uint own_at[kOwn];
      int own_sequence[kOwn];
      ivec2 sight[kOwn];
      float own_lse[kOwn];
      float own_delta[kOwn];
      [[unroll]] for (uint j = 0u; j < kOwn; ++j) {
        const uint own = row + kOwn * lane + j;
        const uint real = min(own, row_count() - 1u);
        own_at[j] = row_base(h, real) / 4u;
        const vec2 both = statistics[row_statistic(h, real)];
        own_lse[j] = both.x;
        own_delta[j] = both.y;
        own_sequence[j] = sequence(h, own / p.group);
        sight[j] = sight_of(own, offset, own_sequence[j]);
      }
      float weights[kOwn * kRows];
      float slopes[kOwn * kRows];
      [[unroll]] for (uint i = 0u; i < kOwn * kRows; ++i) weights[i] = slopes[i] = 0.0;
      ADD_PRODUCTS(weights, k4, held_at, q4_at, own_at)
      ADD_PRODUCTS(slopes, v4, held_at, dy4_at, own_at)
      [[unroll]] for (uint i = 0u; i < kRows; ++i) {
        const int key = int(first_key + i);
        const int of_sequence = HELD(key_sequence, i);
        [[unroll]] for (uint j = 0u; j < kOwn; ++j) {
          const float s = score(weights[kOwn * i + j]);
          const float full = masked(h, row + kOwn * lane + j, uint(key), s);
          const bool seen =
              key >= sight[j].x && key < sight[j].y && own_sequence[j] == of_sequence && !(full <= kMasked);
          const float w = exp_weight(full - own_lse[j]);
          const float slope = w * (slopes[kOwn * i + j] - own_delta[j]) * score_slope(s);
          weights[kOwn * i + j] = seen ? w : 0.0;
          slopes[kOwn * i + j] = seen ? slope : 0.0;
        }
      }
      ADD_WEIGHTED(dv, weights, dy4_at, own_at, columns, range.y - row)
      ADD_WEIGHTED(dk, slopes, q4_at, own_at, columns, range.y - row)
      row = next_rows(h, row + kAcross, range.y, span);
    } while (row < range.y);
  }
  STORE_ROWS(dk4, dk, key_base, h, first_key, p.keys)
  STORE_ROWS(dv4, dv, key_base, h, first_key, p.keys)
}

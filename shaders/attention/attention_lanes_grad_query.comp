// attention_grad_query.comp for CPUs (see attention_lanes.glsl): held rows, keys of each lane's own.
//! variant f32 :
//! variant f32_mask : -DMASK
//! variant f32_apart : -DAPART
//! variant f32_mask_apart : -DAPART -DMASK
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/attention/attention_lanes.glsl"
#include "shaders/attention/attention_lanes_grad.glsl"
layout(binding = 6) writeonly buffer Dq4 { vec4 dq4[]; };
#define k4_at(i) k4[i]
#define v4_at(i) v4[i]

void main() {
  const uint group = flat_workgroup() * kClusters + own_cluster();
  if (group >= p.batch * p.kv_heads * p.row_tiles) return;
  const uint lane = own_lane();
  const uint first_row = group % p.row_tiles * kRows;
  const Head h = Head(group / p.row_tiles / p.kv_heads, group / p.row_tiles % p.kv_heads);
  const int offset = first_place();

  uint held_at[kHeld];
  ivec2 sight[kHeld];
  int row_sequence[kHeld];
  float row_lse[kHeld];
  float row_delta[kHeld];
  ivec2 span = kNothing;
  [[unroll]] for (uint i = 0u; i < kHeld; ++i) {
    const uint row = held_row(first_row, i);
    const uint real = min(row, row_count() - 1u);
    held_at[i] = row_base(h, real) / 4u;
    const vec2 both = statistics[row_statistic(h, real)];
    row_lse[i] = both.x;
    row_delta[i] = both.y;
    row_sequence[i] = sequence(h, row / p.group);
    sight[i] = sight_of(row, offset, row_sequence[i]);
    span = with_sequence(span, row_sequence[i]);
  }
  span = over_lanes_span(span);
  uint columns[kQuads];
  SET_COLUMNS(columns)
  vec4 result[kRows * kQuads];
  [[unroll]] for (uint i = 0u; i < kRows * kQuads; ++i) result[i] = vec4(0.0);

  const uvec2 range = keys_of_rows(first_row, kRows, offset);
  uint key = next_keys(h, range.x, range.y, span);
  if (key < range.y) {
    [[dont_unroll]] do {
      uint own_at[kOwn];
      int own_sequence[kOwn];
      [[unroll]] for (uint j = 0u; j < kOwn; ++j) {
        const uint own = key + kOwn * lane + j;
        own_at[j] = key_base(h, min(own, p.keys - 1u)) / 4u;
        own_sequence[j] = sequence(h, own);
      }
      float products[kOwn * kRows];
      float slopes[kOwn * kRows];
      [[unroll]] for (uint i = 0u; i < kOwn * kRows; ++i) products[i] = slopes[i] = 0.0;
      ADD_PRODUCTS(products, q4, held_at, k4_at, own_at)
      ADD_PRODUCTS(slopes, dy4, held_at, v4_at, own_at)
      [[unroll]] for (uint i = 0u; i < kRows; ++i) {
        const int low = HELD(sight, i).x;
        const int high = HELD(sight, i).y;
        const int of_sequence = HELD(row_sequence, i);
        const float of_lse = HELD(row_lse, i);
        const float of_delta = HELD(row_delta, i);
        [[unroll]] for (uint j = 0u; j < kOwn; ++j) {
          const int own = int(key + kOwn * lane + j);
          const float s = score(products[kOwn * i + j]);
          const float full = masked(h, first_row + i, uint(own), s);
          const bool seen = own >= low && own < high && own_sequence[j] == of_sequence && !(full <= kMasked);
          const float slope = exp_weight(full - of_lse) * (slopes[kOwn * i + j] - of_delta) * score_slope(s);
          slopes[kOwn * i + j] = seen ? slope : 0.0;
        }
      }
      ADD_WEIGHTED(result, slopes, k4_at, own_at, columns, range.y - key)
      key = next_keys(h, key + kAcross, range.y, span);
    } while (key < range.y);
  }
  STORE_ROWS(dq4, result, row_base, h, first_row, row_count())
}

// attention.comp for CPUs (see attention_lanes.glsl): the held rows go through all keys, kOwn a lane at a time.
//! variant f32 :
//! variant f32_mask : -DMASK
//! variant f32_blocks : -DBLOCKS
//! variant f32_apart : -DAPART
//! variant f32_mask_apart : -DAPART -DMASK
//! variant f32_blocks_apart : -DAPART -DBLOCKS
#version 450
#extension GL_GOOGLE_include_directive : require
#include "shaders/attention/attention_lanes.glsl"

layout(binding = 0) readonly buffer Q4 { vec4 q4[]; };
layout(binding = 4) readonly buffer State { uint state_words[]; };
#include "shaders/attention/attention_step_place.glsl"
layout(binding = 5) writeonly buffer O4 { vec4 o4[]; };
layout(binding = 6) writeonly buffer Lse { float lse[]; };
#include "shaders/attention/attention_operands.glsl"
#define SIGHT 3
#include "shaders/attention/attention_sight.glsl"
#include "shaders/attention/attention_lanes_sequences.glsl"

void main() {
  const uint group = flat_workgroup() * kClusters + own_cluster();
  if (group >= p.batch * p.kv_heads * p.row_tiles) return;
  const uint lane = own_lane();
  const uint first_row = group % p.row_tiles * kRows;
  const Head h = Head(group / p.row_tiles / p.kv_heads, group / p.row_tiles % p.kv_heads);
  const Head keys = Head(place_slot(h.batch), h.kv);
  const int offset = first_query(h.batch);

  uint held_at[kHeld];
  ivec2 sight[kHeld];
  int row_sequence[kHeld];
  float top[kHeld];  // maximum of each row so far
  ivec2 span = kNothing;
  [[unroll]] for (uint i = 0u; i < kHeld; ++i) {
    const uint row = held_row(first_row, i);
    held_at[i] = row_base(h, min(row, row_count() - 1u)) / 4u;
    row_sequence[i] = sequence(h, row / p.group);
    sight[i] = sight_of(row, offset, row_sequence[i]);
    span = with_sequence(span, row_sequence[i]);
    top[i] = kMasked;
  }
  span = over_lanes_span(span);
  uint columns[kQuads];
  SET_COLUMNS(columns)
  float total[kRows];  // of this lane's keys
  vec4 result[kRows * kQuads];
  [[unroll]] for (uint i = 0u; i < kRows; ++i) total[i] = 0.0;
  [[unroll]] for (uint i = 0u; i < kRows * kQuads; ++i) result[i] = vec4(0.0);

  const uvec2 range = keys_of_rows(first_row, kRows, offset);
  uint key = next_keys(h, range.x, range.y, span);
  if (key < range.y) {
    [[dont_unroll]] do {
      uint own_at[kOwn];
      int own_sequence[kOwn];
      [[unroll]] for (uint j = 0u; j < kOwn; ++j) {
        const uint own = key + kOwn * lane + j;
        own_at[j] = key_base(keys, min(own, p.keys - 1u)) / 4u;
        own_sequence[j] = sequence(h, own);
      }
      float weights[kOwn * kRows];
      [[unroll]] for (uint i = 0u; i < kOwn * kRows; ++i) weights[i] = 0.0;
      ADD_PRODUCTS(weights, q4, held_at, k_at, own_at)

      float before[kHeld];
      [[unroll]] for (uint i = 0u; i < kHeld; ++i) before[i] = top[i];
      [[unroll]] for (uint i = 0u; i < kRows; ++i) {
        const int low = HELD(sight, i).x;
        const int high = HELD(sight, i).y;
        const int of_sequence = HELD(row_sequence, i);
        float most = kMasked;
        [[unroll]] for (uint j = 0u; j < kOwn; ++j) {
          const int own = int(key + kOwn * lane + j);
          const bool seen = own >= low && own < high && own_sequence[j] == of_sequence;
          const float s = score(weights[kOwn * i + j]);
          weights[kOwn * i + j] = seen ? masked(h, first_row + i, uint(own), s) : kMasked;
          most = max(most, weights[kOwn * i + j]);
        }
        most = max(over_lanes_max(most), top[i / kLanes]);
        top[i / kLanes] = lane == i % kLanes ? most : top[i / kLanes];
      }
      float shrink[kHeld];
      [[unroll]] for (uint i = 0u; i < kHeld; ++i) shrink[i] = exp_weight(before[i] - top[i]);
      [[unroll]] for (uint i = 0u; i < kRows; ++i) {
        const float most = HELD(top, i);
        const float less = HELD(shrink, i);
        total[i] *= less;
        [[unroll]] for (uint j = 0u; j < kOwn; ++j) {
          const float s = weights[kOwn * i + j];
          weights[kOwn * i + j] = s == kMasked ? 0.0 : exp_weight(s - most);
          total[i] += weights[kOwn * i + j];
        }
        [[unroll]] for (uint c = 0u; c < kQuads; ++c) result[i * kQuads + c] *= less;
      }
      ADD_WEIGHTED(result, weights, v_at, own_at, columns, range.y - key)
      key = next_keys(h, key + kAcross, range.y, span);
    } while (key < range.y);
  }

  // Picks registers by comparison, because each place that stores costs a CPU driver's compiler milliseconds.
  uint i = 0u;
  [[dont_unroll]] do {
    float sum = total[0];
    float most = top[0];
    vec4 values[kQuads];
    [[unroll]] for (uint c = 0u; c < kQuads; ++c) values[c] = result[c];
    [[unroll]] for (uint r = 1u; r < kRows; ++r) {
      sum = i == r ? total[r] : sum;
      most = i / kLanes == r / kLanes ? top[r / kLanes] : most;
      [[unroll]] for (uint c = 0u; c < kQuads; ++c) values[c] = i == r ? result[r * kQuads + c] : values[c];
    }
    sum = over_lanes_sum(sum);
    most = HANDED(most, i % kLanes);
    const uint row = first_row + i;
    const bool any = sum != 0.0;  // a row that sees no key gives zeros
    if (row < row_count()) {
      const uint at = row_base(h, row) / 4u;
      [[unroll]] for (uint c = 0u; c < kQuads; ++c) {
        const uint column = c * kLanes + lane;
        if (column < p.dim / 4u) o4[at + column] = any ? values[c] / sum : vec4(0.0);
      }
      if (lane == 0u) lse[row_statistic(h, row)] = any ? most + log_accurate(sum) : -inf();
    }
    ++i;
  } while (i < kRows);
}

// Attention of a few rows (those of one query, as a text is written token by token) on a device with narrow subgroups
// and shuffles: every lane takes keys of its own and keeps the maximum, sum and weighted values of what it saw; what
// the lanes found is put together at the end, in an order that never changes.
//! variant f32 :
//! variant f32_blocks : -DBLOCKS
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
layout(constant_id = 0) const uint kInvocations = 8;
layout(constant_id = 1) const uint kVectors = 1;  // of four elements in a head
layout(constant_id = 2) const uint kRows = 1;     // of a cluster
layout(constant_id = 3) const uint kClusters = 1;
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
#include "shaders/common/clusters.glsl"
#include "shaders/common/index.glsl"
#include "shaders/common/math.glsl"
#include "shaders/attention/attention_push.h"

layout(binding = 0) readonly buffer Q { vec4 q[]; };
layout(binding = 3) readonly buffer State { uint state_words[]; };
#include "shaders/attention/attention_step_place.glsl"
layout(binding = 4) writeonly buffer O { vec4 o[]; };
layout(binding = 5) writeonly buffer Lse { float lse[]; };
#include "shaders/attention/attention_operands.glsl"

const float kMasked = -3.0e38;  // a score that no product reaches

void main() {
  const uint group = flat_workgroup() * kClusters + own_cluster();
  if (group >= p.batch * p.kv_heads * p.row_tiles) return;
  const uint lane = own_lane();
  const uint first_row = group % p.row_tiles * kRows;
  const uint kv = group / p.row_tiles % p.kv_heads;
  const uint batch = group / p.row_tiles / p.kv_heads;
  const uint rows = p.queries * p.group;
  const uint slot = place_slot(batch);
  const int offset = first_query(batch);

  uint statistic[kRows];  // where a row's lse stands; its head begins at that many heads
  int place[kRows];
  vec4 left[kRows * kVectors];
  vec4 result[kRows * kVectors];
  float top[kRows];  // maximum of each row so far
  float total[kRows];
  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    const uint row = min(first_row + r, rows - 1);
    place[r] = int(row / p.group) + offset;
    statistic[r] = ((batch * p.queries + row / p.group) * p.kv_heads + kv) * p.group + row % p.group;
    top[r] = kMasked;
    total[r] = 0.0;
    [[unroll]] for (uint i = 0; i < kVectors; ++i) {
      left[r * kVectors + i] = q[statistic[r] * kVectors + i];
      result[r * kVectors + i] = vec4(0.0);
    }
  }
  // Keys [begin, end) hold those that some row sees. A key has its lane whatever the rows are, so that a row gets the
  // same bits alone and among others: what it does not see leaves no trace.
  int begin = 0;
  int end = int(p.keys);
  if (p.window != 0) begin = max(begin, place[0] - p.window + 1) / int(kLanes) * int(kLanes);
  if (p.causal != 0) end = min(end, place[kRows - 1] + 1);
  if (p.window != 0) end = min(end, place[kRows - 1] + p.window);

  for (int first = begin; first < end; first += int(kLanes)) {
    const int key = min(first + int(lane), end - 1);
    const uint base = ((slot * p.keys + uint(key)) * p.kv_heads + kv) * kVectors;
    float weight[kRows];
    [[unroll]] for (uint r = 0; r < kRows; ++r) weight[r] = 0.0;
    [[unroll]] for (uint i = 0; i < kVectors; ++i) {
      const vec4 right = k_at(base + i);
      [[unroll]] for (uint r = 0; r < kRows; ++r) weight[r] += dot(left[r * kVectors + i], right);
    }
    float shrink[kRows];
    [[unroll]] for (uint r = 0; r < kRows; ++r) {
      float score = weight[r] * p.scale;
      if (p.softcap != 0.0) score = p.softcap * tanh_accurate(score / p.softcap);
      const int ahead = key - place[r];
      const bool seen = first + int(lane) < end && !(p.causal != 0 && ahead > 0) &&
                        !(p.window != 0 && abs(ahead) >= p.window);
      score = seen ? score : kMasked;
      const float highest = max(top[r], score);
      shrink[r] = exp_accurate(top[r] - highest);
      weight[r] = seen ? exp_accurate(score - highest) : 0.0;
      top[r] = highest;
      total[r] = total[r] * shrink[r] + weight[r];
    }
    [[unroll]] for (uint i = 0; i < kVectors; ++i) {
      const vec4 value = v_at(base + i);
      [[unroll]] for (uint r = 0; r < kRows; ++r) {
        result[r * kVectors + i] = result[r * kVectors + i] * shrink[r] + weight[r] * value;
      }
    }
  }

  [[unroll]] for (uint r = 0; r < kRows; ++r) {
    float highest = top[r];
    [[unroll]] for (uint i = 0; i < kLanes; ++i) highest = max(highest, HANDED(top[r], i));
    const float shrink = exp_accurate(top[r] - highest);
    // Shuffles with constant lanes: a CPU driver makes them vector permutes. Computed lanes become loops, which take it
    // seconds to compile.
    const float part = total[r] * shrink;
    float sum = 0.0;
    [[unroll]] for (uint i = 0; i < kLanes; ++i) sum += HANDED(part, i);
    const bool any = sum != 0.0;  // a row that sees no key gives zeros
    const float factor = any ? shrink / sum : 0.0;
    const bool stored = first_row + r < rows;
    [[unroll]] for (uint first = 0; first < kVectors; first += kLanes) {
      vec4 own = vec4(0.0);  // a lane stores one vector of these
      [[unroll]] for (uint i = 0; i < kLanes; ++i) {
        if (first + i < kVectors) {
          const vec4 own_part = result[r * kVectors + min(first + i, kVectors - 1)] * factor;
          vec4 value = vec4(0.0);
          [[unroll]] for (uint from = 0; from < kLanes; ++from) value += HANDED(own_part, from);
          own = lane == i ? value : own;
        }
      }
      if (stored && first + lane < kVectors) o[statistic[r] * kVectors + first + lane] = own;
    }
    if (stored && lane == 0) lse[statistic[r]] = any ? highest + log_accurate(sum) : -inf();
  }
}

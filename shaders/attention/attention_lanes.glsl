// Attention for devices whose subgroups are narrow and whose shared memory is no faster than their caches (CPUs): a
// cluster of lanes (clusters.glsl) has a tile to itself. Of one side of a product kRows rows are held, row i by lane
// i % kLanes, and handed round by shuffles; of the other side each lane has kOwn rows of its own, kOwn * lane to
// kOwn * lane + kOwn - 1. Sums over the latter are of kQuads fours of a head's elements in each lane.
// With -DAPART, for devices without shuffles, a cluster is one lane: it loads all that it needs, and its sums are of whole
// rows.
// Macros instead of functions: drivers stumble over arrays of specialized size as arguments. Loops test at their end,
// because llvmpipe runs a whole body, masked, before it leaves a loop that tests at its start.
#extension GL_EXT_control_flow_attributes : require
layout(constant_id = 0) const uint kInvocations = 8;
layout(constant_id = 1) const uint kRows = 8;
layout(constant_id = 2) const uint kQuads = 1;
layout(constant_id = 3) const bool kSoftcap = false;
layout(constant_id = 4) const uint kClusters = 1;
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
#ifdef APART
#include "shaders/common/clusters_of_one.glsl"
const uint kOwn = 8;
#else
#include "shaders/common/clusters.glsl"
const uint kOwn = 4;
#endif
#include "shaders/common/index.glsl"
#include "shaders/common/math.glsl"
#include "shaders/common/step_state.h"
#include "shaders/attention/attention_push.h"
#include "shaders/attention/attention_heads.glsl"

const uint kHeld = (kRows + kLanes - 1) / kLanes;
const uint kAcross = kOwn * kLanes;
const float kMasked = -3.0e38;  // a score that no product reaches
const ivec2 kNothing = ivec2(0x7fffffff, -1);  // no sequences

// `own` below is a function of, or a macro for, four elements.
// sums[kOwn i + j] += held row i times own row j. `held_at` and `own_at` count fours of elements.
#define ADD_PRODUCTS(sums, held, held_at, own, own_at)                                      \
  {                                                                                         \
    uint d = 0u;                                                                            \
    [[dont_unroll]] do {                                                                    \
      vec4 a[kHeld];                                                                        \
      vec4 b[kOwn];                                                                         \
      [[unroll]] for (uint i = 0u; i < kHeld; ++i) a[i] = held[held_at[i] + d];             \
      [[unroll]] for (uint j = 0u; j < kOwn; ++j) b[j] = own(own_at[j] + d);                \
      [[unroll]] for (uint i = 0u; i < kRows; ++i) {                                        \
        [[unroll]] for (uint q = 0u; q < 4u; ++q) {                                         \
          const float x = HANDED(a[i / kLanes][q], i % kLanes);                             \
          [[unroll]] for (uint j = 0u; j < kOwn; ++j) sums[kOwn * i + j] += x * b[j][q];    \
        }                                                                                   \
      }                                                                                     \
      ++d;                                                                                  \
    } while (d < p.dim / 4u);                                                               \
  }

// sums[i kQuads + c] += weights[kOwn i + j] of each lane times that lane's own row j, four elements at `columns[c]`.
// `count` rows of all lanes count, from the first on.
#ifdef APART
#define ADD_WEIGHTED(sums, weights, own, own_at, columns, count)                            \
  {                                                                                         \
    uint j = 0u;                                                                            \
    [[dont_unroll]] do {                                                                    \
      uint at = own_at[0];                                                                  \
      float w[kRows];                                                                       \
      [[unroll]] for (uint i = 0u; i < kRows; ++i) w[i] = weights[kOwn * i];                \
      [[unroll]] for (uint k = 1u; k < kOwn; ++k) {                                         \
        at = j == k ? own_at[k] : at;                                                       \
        [[unroll]] for (uint i = 0u; i < kRows; ++i) w[i] = j == k ? weights[kOwn * i + k] : w[i]; \
      }                                                                                     \
      [[unroll]] for (uint c = 0u; c < kQuads; ++c) {                                       \
        const vec4 b = own(at + columns[c]);                                                \
        [[unroll]] for (uint i = 0u; i < kRows; ++i) sums[i * kQuads + c] += w[i] * b;      \
      }                                                                                     \
      ++j;                                                                                  \
    } while (j < min(kOwn, count));                                                         \
  }
#else
#define ADD_WEIGHTED(sums, weights, own, own_at, columns, count)                            \
  {                                                                                         \
    const uint lanes = min(kLanes, ((count) + kOwn - 1u) / kOwn);                           \
    uint from = 0u;                                                                         \
    [[dont_unroll]] do {                                                                    \
      vec4 b[kOwn * kQuads];                                                                \
      [[unroll]] for (uint j = 0u; j < kOwn; ++j) {                                         \
        const uint at = HANDED(own_at[j], from);                                            \
        [[unroll]] for (uint c = 0u; c < kQuads; ++c) b[j * kQuads + c] = own(at + columns[c]); \
      }                                                                                     \
      [[unroll]] for (uint i = 0u; i < kRows; ++i) {                                        \
        [[unroll]] for (uint j = 0u; j < kOwn; ++j) {                                       \
          const float w = HANDED(weights[kOwn * i + j], from);                              \
          [[unroll]] for (uint c = 0u; c < kQuads; ++c) sums[i * kQuads + c] += w * b[j * kQuads + c]; \
        }                                                                                   \
      }                                                                                     \
      ++from;                                                                               \
    } while (from < lanes);                                                                 \
  }
#endif

// Held numbers of row `i`, for every lane.
#define HELD(name, i) HANDED(name[(i) / kLanes], (i) % kLanes)

// Fours of elements that this lane sums; those past the head's end repeat the last.
#define SET_COLUMNS(columns) \
  [[unroll]] for (uint c = 0u; c < kQuads; ++c) columns[c] = min(c * kLanes + own_lane(), p.dim / 4u - 1u);

// The row that this lane holds as number `slot`, of those from `first` on.
uint held_row(uint first, uint slot) { return first + (slot * kLanes + own_lane()) % kRows; }

// Written out, since loops that double are not unrolled by all drivers.
float over_lanes_max(float x) {
  x = max(x, OTHER(x, 1u));
  x = max(x, OTHER(x, 2u));
  if (kLanes > 4) x = max(x, OTHER(x, 4u));
  if (kLanes > 8) x = max(x, OTHER(x, 8u));
  return x;
}

float over_lanes_sum(float x) {
  if (kLanes == 1) return x;
  x += OTHER(x, 1u);
  x += OTHER(x, 2u);
  if (kLanes > 4) x += OTHER(x, 4u);
  if (kLanes > 8) x += OTHER(x, 8u);
  return x;
}

int over_lanes_min(int x) {
  x = min(x, OTHER(x, 1u));
  x = min(x, OTHER(x, 2u));
  if (kLanes > 4) x = min(x, OTHER(x, 4u));
  if (kLanes > 8) x = min(x, OTHER(x, 8u));
  return x;
}

// The least and the greatest sequence of all lanes.
ivec2 over_lanes_span(ivec2 span) { return ivec2(over_lanes_min(span.x), -over_lanes_min(-span.y)); }
ivec2 with_sequence(ivec2 span, int sequence) {
  return sequence < 0 ? span : ivec2(min(span.x, sequence), max(span.y, sequence));
}
bool overlap(ivec2 a, ivec2 b) { return a.x <= b.y && b.x <= a.y; }

// e^x for x <= 0 (and a few roundings above); less than 2^-125 below -87.
float exp_weight(float x) {
  const float bounded = x < -87.0 ? -87.0 : x;  // keeps what is not a number
  const float n = floor(bounded * 1.44269504 + 0.5);
  precise float r = bounded - n * kLn2High;
  r = r - n * kLn2Low;
  return (1.0 + expm1_small(r)) * uintBitsToFloat(uint(int(n) + 127) << 23);
}

// A product of query and key as a score, and d score / d product.
float score(float product) {
  const float s = product * p.scale;
  return kSoftcap ? p.softcap * tanh_accurate(s / p.softcap) : s;
}
float score_slope(float s) {
  const float ratio = kSoftcap ? s / p.softcap : 0.0;
  return p.scale * (1.0 - ratio * ratio);
}

// Keys [x, y) that a row of this sequence sees by its place; none past the last row and for padding.
ivec2 sight_of(uint row, int offset, int sequence) {
  const int at = int(row / p.group) + offset;
  ivec2 keys = ivec2(0, int(p.keys));
  if (p.window != 0) keys = ivec2(max(at - p.window + 1, 0), min(keys.y, at + p.window));
  if (p.causal != 0u) keys.y = min(keys.y, at + 1);
  return row >= row_count() || sequence < 0 ? ivec2(0) : keys;
}

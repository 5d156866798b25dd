// What the two kernels of the gradient for CPUs share: bindings as in attention_grad.glsl, and stores.
layout(binding = 0) readonly buffer Q4 { vec4 q4[]; };
layout(binding = 1) readonly buffer K4 { vec4 k4[]; };
layout(binding = 2) readonly buffer V4 { vec4 v4[]; };
layout(binding = 3) readonly buffer Dy4 { vec4 dy4[]; };
layout(binding = 4) readonly buffer Statistics { vec2 statistics[]; };  // lse, and the sum of dy * o
#define SIGHT 5
#include "shaders/attention/attention_sight.glsl"
#include "shaders/attention/attention_grad_place.glsl"
#include "shaders/attention/attention_lanes_sequences.glsl"

// Stores the sums of rows `first` to `first` + kRows, of `count`. Picks registers by comparison, because each place
// that stores costs a CPU driver's compiler milliseconds.
#define STORE_ROWS(name, sums, base_of, h, first, count)                                                 \
  {                                                                                                      \
    uint i = 0u;                                                                                         \
    [[dont_unroll]] do {                                                                                 \
      vec4 values[kQuads];                                                                               \
      [[unroll]] for (uint c = 0u; c < kQuads; ++c) values[c] = sums[c];                                 \
      [[unroll]] for (uint r = 1u; r < kRows; ++r) {                                                     \
        [[unroll]] for (uint c = 0u; c < kQuads; ++c) values[c] = i == r ? sums[r * kQuads + c] : values[c]; \
      }                                                                                                  \
      if ((first) + i < (count)) {                                                                       \
        const uint at = base_of(h, (first) + i) / 4u;                                                    \
        [[unroll]] for (uint c = 0u; c < kQuads; ++c) {                                                  \
          const uint column = c * kLanes + own_lane();                                                   \
          if (column < p.dim / 4u) name[at + column] = values[c];                                        \
        }                                                                                                \
      }                                                                                                  \
      ++i;                                                                                               \
    } while (i < kRows);                                                                                 \
  }

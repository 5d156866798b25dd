// Rows that are a sum of two tensors, which is given too. Variants ask for it by -DSUM=B: binding B is the second
// tensor, B + 1 takes the sum. X_LOAD is ROW_LOAD of x or of the sum; X_GIVE belongs into the last walk over a row, for
// the sum may stand in the place of what it is made of.
#ifndef GRAFT_ROW_SUM_GLSL
#define GRAFT_ROW_SUM_GLSL
#include "shaders/common/rows.glsl"
#ifdef SUM
#include "shaders/fused_elementwise/fused_fn.h"
#include "shaders/common/round16.glsl"

layout(constant_id = 3) const uint SUM_KEPT = 0;  // fused_to_f16, fused_to_bf16: others find the sum rounded so

layout(binding = SUM) readonly buffer Other { float other[]; };
layout(binding = SUM) readonly buffer OtherQuads { vec4 other_quads[]; };
layout(binding = SUM + 1) writeonly buffer Total { float total_out[]; };
layout(binding = SUM + 1) writeonly buffer TotalQuads { vec4 total_out_quads[]; };

float as_kept(float x) {
  if (SUM_KEPT == fused_to_f16) return round_f16(x);
  return SUM_KEPT == fused_to_bf16 ? round_bf16(x) : x;
}

#define X_LOAD(value, start, c, columns, none)                                                       \
  ROW_LOAD(value, x, start, c, columns, none)                                                        \
  {                                                                                                  \
    ROW_LOAD(second_, other, start, c, columns, 0.0)                                                 \
    for (uint k_ = 0; k_ < 4; ++k_) {                                                                \
      if (VECTOR || row_column(c, k_) < (columns)) value[k_] = as_kept(value[k_] + second_[k_]);      \
    }                                                                                                \
  }
#define X_GIVE(start, c, columns, value) ROW_STORE(total_out, start, c, columns, value)
#else
#define X_LOAD(value, start, c, columns, none) ROW_LOAD(value, x, start, c, columns, none)
#define X_GIVE(start, c, columns, value)
#endif
#endif

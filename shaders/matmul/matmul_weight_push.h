#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/gemm_push.h"
#include "shaders/common/push.h"
// C = A W^T (matmul_rows.comp) or C = A W (matmul_columns.comp) for a weight W of any format.
PUSH_BEGIN(MatmulWeightPush)
  GEMM_FIELDS
  uint a_stride;    // elements from a row of A to the next
  uint out_stride;
  uint first;       // row of the whole weight that W's row 0 is
  uint bias_is_base;  // 1: the bias has an element for each of C's
  float alpha;      // factor of the products
  uint accumulate;  // 1: added to what C holds
  uint limited;     // 1: only so many rows exist as the first word of binding 4 says; kMapA, kMapC: they stand where
                    // the words after it say
PUSH_END(MatmulWeightPush)

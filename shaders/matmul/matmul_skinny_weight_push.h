#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// C [rows, n] = A [rows, k] W^T (+ bias) for a quantized weight W [n, k]; k is a multiple of 32.
PUSH_BEGIN(MatmulSkinnyWeightPush)
  uint rows;
  uint n;
  uint k;
  uint groups_n;    // workgroups along n; others follow for further rows of A
  uint groups;      // workgroups in all
  uint out_stride;  // elements from a row of C to the next
  uint first;       // column of C that W's row 0 is
  uint has_bias;
  uint row_bytes;   // of W
  uint lines;       // cache lines of W that a workgroup asks for before it begins; 0: none
  uint last_word;   // of W
  uint zero;        // 0, which no compiler knows
PUSH_END(MatmulSkinnyWeightPush)

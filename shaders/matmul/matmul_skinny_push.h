#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// C [rows, n] = A [rows, k] B, a handful of rows. By rows, k is a multiple of four; by columns, n is.
PUSH_BEGIN(MatmulSkinnyPush)
  uint n;
  uint k;
  uint groups;       // workgroups along n
  uint first_split;  // of the parts of k (by columns), the first one of this dispatch
  uint splits;       // and the one to stop before; each writes its own copy of the output
  uint k_per_split;
  uint has_bias;     // never where there are several parts
PUSH_END(MatmulSkinnyPush)

#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/gemm_push.h"
#include "shaders/common/push.h"
PUSH_BEGIN(MatmulPush)
  GEMM_FIELDS
  uint a_row_stride;
  uint a_k_stride;
  uint b_k_stride;
  uint b_col_stride;
  uint batch_dims[5];  // outermost first; the first dimension's size is implied by `batches`
  uint a_batch_strides[6];
  uint b_batch_strides[6];
PUSH_END(MatmulPush)

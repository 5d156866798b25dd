#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(LayerNormPush)
  uint rows;
  uint columns;
  uint inner;      // 1: rows are contiguous
  uint has_scale;  // flags are 0 or 1
  uint has_bias;
  float epsilon;
PUSH_END(LayerNormPush)

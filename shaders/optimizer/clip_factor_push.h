#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(ClipFactorPush)
  float max_norm;  // 0: no clipping
  uint has_loss;
PUSH_END(ClipFactorPush)

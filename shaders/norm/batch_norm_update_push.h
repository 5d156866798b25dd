#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(BatchNormUpdatePush)
  uint count;
  float momentum;         // weight of the new value
  float variance_factor;  // n / (n - 1) where the variance is to be unbiased
PUSH_END(BatchNormUpdatePush)

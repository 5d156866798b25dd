#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(LionStepPush)
  uint count;
  uint group;       // index into the step state's arrays
  uint has_factor;  // 0, 1: one number, 2: update_control.h; other flags are 0 or 1
  float rate_scale;
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float weight_decay;
PUSH_END(LionStepPush)

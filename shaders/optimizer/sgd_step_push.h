#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(SgdStepPush)
  uint count;
  uint group;         // index into the step state's arrays
  uint has_momentum;  // flags are 0 or 1
  uint has_factor;    // 0, 1: one number, 2: update_control.h
  uint nesterov;
  uint maximize;
  float momentum;
  float one_minus_dampening;
  float weight_decay;
  float rate_scale;  // of this parameter
PUSH_END(SgdStepPush)

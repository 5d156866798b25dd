#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(RmspropStepPush)
  uint count;
  uint group;       // index into the step state's arrays
  uint has_factor;  // 0, 1: one number, 2: update_control.h; other flags are 0 or 1
  float rate_scale;
  uint has_momentum;
  uint centered;
  float alpha;
  float one_minus_alpha;
  float epsilon;
  float momentum;
  float weight_decay;
PUSH_END(RmspropStepPush)

#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(MomentUpdatePush)
  uint count;
  uint group;       // index into the step state's arrays
  uint has_factor;  // 0, 1: one number, 2: update_control.h; other flags are 0 or 1
  uint from_step;   // weight is bias_correction1, of the control or the step state
  uint lerp;        // state + weight (x - state), instead of decay * state + weight * x
  uint squared;     // x is squared first
  float decay;
  float weight;
PUSH_END(MomentUpdatePush)

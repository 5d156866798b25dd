#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(LossScaleStepPush)
  float initial;
  float growth;
  float backoff;
  float interval;
  float max_norm;  // 0: no clipping
  uint unscaled;   // the gradients no longer have the scale in them
  float log_beta1;
  float log_beta2;
  uint corrections;  // loss_scale_state.h
  float beta2_decay; // adafactor
  uint has_loss;
PUSH_END(LossScaleStepPush)

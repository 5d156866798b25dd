#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(ClipFactorPush)
  float max_norm;
PUSH_END(ClipFactorPush)

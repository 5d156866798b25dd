#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(BenchArithmeticPush)
  uint rounds;
PUSH_END(BenchArithmeticPush)

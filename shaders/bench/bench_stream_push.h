#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(BenchStreamPush)
  uint count;  // elements
PUSH_END(BenchStreamPush)

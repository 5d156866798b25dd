#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(QuantizeRowsPush)
  uint runs;  // of 32 elements
PUSH_END(QuantizeRowsPush)

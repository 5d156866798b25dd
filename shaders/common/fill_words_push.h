#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(FillWordsPush)
  uint count;
  uint word;
PUSH_END(FillWordsPush)

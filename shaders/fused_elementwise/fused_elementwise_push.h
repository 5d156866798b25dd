#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(FusedElementwisePush)
  uint count;
  uint first;  // of these elements, among those of the whole tensor
  uint div[4];
  uint mod[4];
  float alpha[8];
  float beta[8];
PUSH_END(FusedElementwisePush)

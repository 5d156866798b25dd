#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(SumHitsPush)
uint rows;
PUSH_END(SumHitsPush)

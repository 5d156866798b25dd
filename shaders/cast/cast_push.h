#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(CastPush)
uint count;
PUSH_END(CastPush)

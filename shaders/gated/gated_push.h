#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(GatedPush)
uint count;
PUSH_END(GatedPush)

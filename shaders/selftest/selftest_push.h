#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(SelftestPush)
uint n;
float scale;
float bias;
PUSH_END(SelftestPush)

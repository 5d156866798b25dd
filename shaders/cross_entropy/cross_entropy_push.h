#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// smoothing: weight of the uniform distribution in the target.
PUSH_BEGIN(CrossEntropyPush)
uint rows;
uint columns;
uint inner;  // 1
int ignore_index;
float smoothing;
PUSH_END(CrossEntropyPush)

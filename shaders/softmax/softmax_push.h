#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// rows of `columns` elements that stand `inner` apart.
PUSH_BEGIN(SoftmaxPush)
uint rows;
uint columns;
uint inner;
PUSH_END(SoftmaxPush)

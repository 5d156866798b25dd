#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(TopkRowsPush)
uint rows;
uint columns;
uint inner;  // 1
int ignore_index;
uint k;
PUSH_END(TopkRowsPush)

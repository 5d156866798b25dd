#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(RnnBeginPush)
uint count;   // rows of the batch times hidden
uint hidden;  // of a row
uint step;    // the first step that is bound
uint steps;   // that are bound
PUSH_END(RnnBeginPush)

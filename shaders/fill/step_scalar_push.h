#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// word: the field's place in the step state, in 4-byte words.
PUSH_BEGIN(StepScalarPush)
uint word;
PUSH_END(StepScalarPush)

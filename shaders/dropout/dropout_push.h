#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// Elements first to first + count of the tensor. A random word below `threshold` drops its element.
PUSH_BEGIN(DropoutPush)
uint count;
uint first;  // a multiple of 4
uint threshold;
uint stream;
float scale;
PUSH_END(DropoutPush)

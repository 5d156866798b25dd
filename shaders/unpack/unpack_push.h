#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(UnpackPush)
uint count;
uint first;     // element of the tensor that `count` begins with
uint inner;     // elements behind one of a channel
uint channels;  // 1 to 4
float scale[4];
float offset[4];
PUSH_END(UnpackPush)

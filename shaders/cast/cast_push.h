#include "shaders/common/push.h"
PUSH_BEGIN(CastPush)
uint count;
PUSH_END(CastPush)

#include "shaders/common/push.h"
PUSH_BEGIN(SumHitsPush)
uint rows;
PUSH_END(SumHitsPush)

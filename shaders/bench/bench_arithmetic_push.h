#include "shaders/common/push.h"
PUSH_BEGIN(BenchArithmeticPush)
  uint rounds;
PUSH_END(BenchArithmeticPush)

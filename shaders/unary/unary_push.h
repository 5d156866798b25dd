#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// alpha and beta: the op's two parameters; int_* where the tensor is i32.
PUSH_BEGIN(UnaryPush)
uint count;
float alpha;
float beta;
int int_alpha;
int int_beta;
PUSH_END(UnaryPush)

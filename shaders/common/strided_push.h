#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// An output of `count` units and three operands, axes innermost first; the outermost dim is not needed to take an
// index apart. A unit is one element, or four neighbouring ones (VECTOR in strided.glsl).
PUSH_BEGIN(StridedPush)
uint count;
uint dims[7];
uint strides_a[8];
uint strides_b[8];
uint strides_c[8];
PUSH_END(StridedPush)

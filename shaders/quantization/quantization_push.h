#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(QuantizationPush)
uint count;
uint first;   // element of the tensor that `count` begins with
uint axis;    // its size
uint inner;   // elements behind one of the axis
uint block;   // elements of the axis that share a scale
float low;    // of the quantized type
float high;
int least;    // least exponent of a floating-point type
PUSH_END(QuantizationPush)

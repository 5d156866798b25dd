#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(NarrowPush)
  uint count;
  int mantissa;       // bits; of integers: all bits
  int least;          // exponent of the smallest normal number; of integers: 1 where there is a sign
  float largest;
  uint overflow;      // 0 infinity, 1 not-a-number, 2 the largest
  uint saturate;      // 1: what is too large, infinity too, becomes the largest
  uint negative_zero; // 0: there is none
  uint power;         // 1 + rounding (0 up, 1 down, 2 nearest) where the format has powers of two alone
PUSH_END(NarrowPush)

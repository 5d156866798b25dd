#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(LinearCrossEntropyRowsPush)
  uint rows;
  int ignore_index;
  uint keep_all;  // 1: all rows are listed
  uint clear;     // 1: the losses of rows that are not listed become 0
PUSH_END(LinearCrossEntropyRowsPush)

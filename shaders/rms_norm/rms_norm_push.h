#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(RmsNormPush)
  uint rows;
  uint columns;
  uint inner;      // 1: rows are contiguous
  uint has_scale;  // flags are 0 or 1
  float unit;      // added to every scale
  float epsilon;
PUSH_END(RmsNormPush)

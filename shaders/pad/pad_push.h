#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// Axes are collapsed on the host; before[a] may be negative (crop).
PUSH_BEGIN(PadPush)
  uint count;  // elements of y
  uint axes;   // 1 to 8
  uint mode;   // 0 constant, 1 reflect, 2 edge
  uint word;   // of the constant
  uint out_size[8];
  uint in_size[8];
  int before[8];
PUSH_END(PadPush)

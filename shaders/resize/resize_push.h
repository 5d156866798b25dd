#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// Images [batch, h, w, channels]; [0] is h, [1] is w. Position o of the resized axis lies at (a * o + b) / c of the
// source axis: rational, so that nearest picks the same element on every device.
PUSH_BEGIN(ResizePush)
  uint count;  // elements written
  uint channels;
  uint linear;    // 0: nearest
  uint rounding;  // 0 round_prefer_floor, 1 floor, 2 ceil, 3 round_prefer_ceil
  int in_size[2];
  int out_size[2];
  int a[2];  // >= 0
  int b[2];
  int c[2];  // > 0
PUSH_END(ResizePush)

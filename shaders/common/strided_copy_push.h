#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// Words are copied from from_offset + sum(i[a] * from_stride[a]) to the like; arithmetic is modulo 2^32.
PUSH_BEGIN(StridedCopyPush)
  uint count;  // product of the sizes
  uint axes;   // 1 to 8
  uint from_offset;
  uint to_offset;
  uint size[8];
  uint from_stride[8];
  uint to_stride[8];
PUSH_END(StridedCopyPush)

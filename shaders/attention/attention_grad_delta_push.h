#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(AttentionGradDeltaPush)
  uint rows;
  uint columns;
  uint inner;  // 1: rows are contiguous
PUSH_END(AttentionGradDeltaPush)

#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(PositionsPush)
  uint count;
  uint slots;     // 0: no places
  uint sequence;  // the last axis
PUSH_END(PositionsPush)

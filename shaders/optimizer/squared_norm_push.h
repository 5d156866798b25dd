#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// First pass: `groups` workgroups each sum the squares of `per_group` elements of one tensor; the rest of its
// `slots` partial sums is set to zero. Second pass (count = all partial sums): one workgroup adds them up.
PUSH_BEGIN(SquaredNormPush)
  uint count;
  uint groups;
  uint per_group;
  uint slots;
PUSH_END(SquaredNormPush)

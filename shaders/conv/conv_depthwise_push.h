#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
#include "shaders/conv/conv_fields.h"
PUSH_BEGIN(ConvDepthwisePush)
  CONV_FIELDS
  uint count;            // invocations that have work
  uint has_bias;
  uint lines;            // weight gradient: images * oh
  uint lines_per_split;
  uint first_split;      // of the shares of the lines, the first one of this dispatch
PUSH_END(ConvDepthwisePush)

#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/gemm_push.h"
#include "shaders/common/push.h"
#include "shaders/conv/conv_fields.h"
PUSH_BEGIN(ConvGradWeightPush)
  GEMM_FIELDS
  CONV_FIELDS
  float lines_per_pixel;  // kWholeImages: 1 / ow
PUSH_END(ConvGradWeightPush)

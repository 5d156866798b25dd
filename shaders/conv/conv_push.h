#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/gemm_push.h"
#include "shaders/common/push.h"
#include "shaders/conv/conv_fields.h"
PUSH_BEGIN(ConvPush)
  GEMM_FIELDS
  CONV_FIELDS
  uint tap_step_h;  // data gradient: from one tap that reaches a row to the next
  uint tap_step_w;
PUSH_END(ConvPush)

#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
#include "shaders/conv/conv_fields.h"
// Data gradient of a convolution over few channels, in one group and without dilation: dy [images, oh, ow, o],
// weight [o, kh, kw, c], dx [images, h, w, c].
PUSH_BEGIN(ConvLinesPush)
  CONV_LINES_FIELDS
  uint runs;    // of a line of dx
  uint lanes;   // with runs of lines that agree modulo the stride: images * ceil(h / stride_h) * runs
  uint groups;  // workgroups of so many lanes
  uint has_bias;
PUSH_END(ConvLinesPush)

#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
#include "shaders/conv/conv_fields.h"
// A convolution over few channels in one group and without dilation, or its gradient by the weight: x [images, h, w, c],
// y and dy [images, oh, ow, o], weight [o, kh, kw, c]. Lanes own channels of y, workgroups take runs of its lines' pixels.
PUSH_BEGIN(ConvFewPush)
  CONV_LINES_FIELDS
  uint runs;    // images * oh * runs of a line
  uint each;    // runs of a workgroup
  uint groups;  // workgroups that take runs for the same channels
  uint has_bias;
  // Gradient by the weight: each of those workgroups writes a part of it.
  uint first_part;
  uint part_stride;
PUSH_END(ConvFewPush)

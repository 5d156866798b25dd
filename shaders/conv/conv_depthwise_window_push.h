#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// Depthwise convolution by sliding windows: `x` [images, h, w, channels] is read, [images, oh, ow, channels] written or,
// for the weight gradient, read as well. A unit is a band of output lines of one image, as far as a block of columns.
PUSH_BEGIN(ConvDepthwiseWindowPush)
  uint h;
  uint w;
  uint oh;
  uint ow;
  uint pad_h;  // the bits of an int: the data gradient's may be negative
  uint pad_w;
  uint strips;  // channels / 4, or / 8 with WINDOW_PAIRS
  uint column_blocks;
  uint row_blocks;
  uint columns_per_block;
  uint units;
  uint units_per_split;  // of an invocation
  uint first_split;      // of the shares of the units, the first one of this dispatch
  uint splits;           // and how many it computes
  uint has_bias;
PUSH_END(ConvDepthwiseWindowPush)

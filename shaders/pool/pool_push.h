#include "shaders/common/push.h"
// x [images, h, w, c], y [images, oh, ow, c]
PUSH_BEGIN(PoolPush)
  uint count;  // invocations that have work: pixels that the kernel writes * channel_step
  uint channel_step;  // an invocation's channels are this far apart
  uint h;
  uint w;
  uint c;
  uint oh;
  uint ow;
  uint kernel_h;
  uint kernel_w;
  uint stride_h;
  uint stride_w;
  uint pad_h;
  uint pad_w;
  uint dilation_h;
  uint dilation_w;
  uint padded_h;  // h with the padding of both sides
  uint padded_w;
  uint count_include_pad;
PUSH_END(PoolPush)

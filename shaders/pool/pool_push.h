#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// x [images, h, w, c], y [images, oh, ow, c]. An invocation serves up to four neighbouring channels, a strip, of `run`
// neighbouring pixels of a line that the kernel writes; gradients take such pixels in blocks of 2 x 2.
PUSH_BEGIN(PoolPush)
  uint count;   // invocations that have work: images * lines * runs * strips
  uint strips;  // of a pixel
  uint runs;    // of a line
  uint run;     // pixels or blocks of an invocation, at most
  uint h;
  uint w;
  uint c;
  uint oh;
  uint ow;
  uint pad_h;
  uint pad_w;
  uint padded_h;  // h with the padding of both sides
  uint padded_w;
  uint count_include_pad;
PUSH_END(PoolPush)

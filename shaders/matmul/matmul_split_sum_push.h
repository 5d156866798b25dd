#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(MatmulSplitSumPush)
  uint count;       // elements of the output
  uint splits;
  uint stride;      // elements from one part to the next
  uint bias_count;  // channels, the last axis of the output; 0: no bias
  uint before;      // element of `parts` where the sum of the parts before these stands; 0: they are the first
  uint to;          // first element of the output to write
  uint columns;     // elements in a row of the output, for the epilogue
PUSH_END(MatmulSplitSumPush)

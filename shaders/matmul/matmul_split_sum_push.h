#include "shaders/common/push.h"
PUSH_BEGIN(MatmulSplitSumPush)
  uint count;       // elements of the output
  uint splits;
  uint stride;      // elements from one part to the next
  uint bias_count;  // channels, the last axis of the output; 0: no bias
PUSH_END(MatmulSplitSumPush)

#include "shaders/common/push.h"
PUSH_BEGIN(LayerNormPush)
  uint rows;
  uint cols;
  uint lane_shift;  // 2^lane_shift lanes of a workgroup of 128 share a row
  uint has_scale;   // flags are 0 or 1
  uint has_bias;
  float epsilon;
PUSH_END(LayerNormPush)

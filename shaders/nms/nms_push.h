#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// boxes [batch, boxes, 4], scores [batch, classes, boxes] -> y [batch, classes, places]
PUSH_BEGIN(NmsPush)
  uint groups;  // batch * classes
  uint classes;
  uint boxes;
  uint places;
  float most_overlap;
  float least_score;
PUSH_END(NmsPush)

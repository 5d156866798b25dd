#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(RopePush)
  uint tokens;     // leading axes, sequence included
  uint sequence;
  uint heads;
  uint pairs;      // dim / 2
  uint rotated;    // pairs that turn; the others are copied
  uint position_words;  // 0: none given; else positions repeat after so many tokens
  uint has_frequencies;
  float theta;
  float direction;  // 1, or -1 for the inverse
  float magnitude;
PUSH_END(RopePush)

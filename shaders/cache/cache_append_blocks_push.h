#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// cache [slots, capacity, row], x [batch, tokens, row]; a row in blocks of 32 elements.
PUSH_BEGIN(CacheAppendBlocksPush)
  uint tokens;
  uint capacity;
  uint row;
  uint batch;
  uint slots;   // 0: one, and one item
  uint window;  // of a cache that forgets; 0: it holds all
PUSH_END(CacheAppendBlocksPush)

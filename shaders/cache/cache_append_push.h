#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// cache [slots or batch, capacity, row], x [batch, tokens, row].
PUSH_BEGIN(CacheAppendPush)
  uint count;  // words of x
  uint tokens;
  uint capacity;
  uint row;
  uint slots;   // 0: as many as items
  uint window;  // of a cache that forgets; 0: it holds all
PUSH_END(CacheAppendPush)

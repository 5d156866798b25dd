#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// cache [batch, links * kCacheStride places]
PUSH_BEGIN(CacheMovePush)
  uint stride;  // words of kCacheStride places
  uint links;
  uint batch;   // items that move
  uint slots;   // 0: as many as items
  uint window;
PUSH_END(CacheMovePush)

#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// q and o [batch, queries, kv_heads * group, dim], k and v [batch, keys, kv_heads, dim]. The rows of a key head are its
// queries times the heads of its group: row r is query r / group of head r % group.
PUSH_BEGIN(AttentionPush)
  uint batch;
  uint queries;
  uint keys;
  uint kv_heads;
  uint group;
  uint dim;
  uint row_tiles;  // of as many rows, or keys, as the kernel takes
  uint key_tiles;
  int offset;      // query 0 stands at this key
  int window;      // 0: none; at most 2^30
  float scale;
  float softcap;   // 0: none
  uint causal;     // flags are 0 or 1
  uint has_sequences;
  uint from_step;  // 1: query 0 stands at the step state's position instead; 2: of a cache that forgets (cache_base.h)
  uint mask_batch;  // steps in the mask from an item, a query head and a query to the next; 0: the same for all
  uint mask_head;
  uint mask_query;
  uint slots;  // caches that items choose among by places (places.glsl); 0: each has its own
PUSH_END(AttentionPush)

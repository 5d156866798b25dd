#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// dy [outer, index_count, inner] -> slices [first, first + count) of dx [outer, axis_size, inner], all of them unless
// outer is 1; columns = outer * inner
PUSH_BEGIN(GatherGradPush)
  uint axis_size;
  uint first;
  uint count;
  uint inner;
  uint index_count;
  uint columns;
  uint column_tiles;  // of 512 columns
  uint rows;          // workgroups beside each other: count, or index_count where by_index
  uint by_index;      // 0: a workgroup owns a slice of dx; 1: the first index that names a slice owns it
PUSH_END(GatherGradPush)

#include "shaders/common/push.h"
// dy [outer, index_count, inner] -> dx [outer, axis_size, inner]; columns = outer * inner
PUSH_BEGIN(GatherGradPush)
  uint axis_size;
  uint inner;
  uint index_count;
  uint columns;
  uint column_tiles;  // of 512 columns
  uint rows;          // workgroups beside each other: axis_size, or index_count where by_index
  uint by_index;      // 0: a workgroup owns a slice of dx; 1: the first index that names a slice owns it
PUSH_END(GatherGradPush)

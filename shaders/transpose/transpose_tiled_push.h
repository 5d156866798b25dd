#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// x [batch, rows, cols] -> y [batch, cols, rows]
PUSH_BEGIN(TransposeTiledPush)
  uint batch;
  uint rows;
  uint cols;
  uint row_tiles;
  uint col_tiles;
PUSH_END(TransposeTiledPush)

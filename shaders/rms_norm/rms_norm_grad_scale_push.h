#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
PUSH_BEGIN(RmsNormGradScalePush)
  uint rows;
  uint columns;
  uint chunk_rows;
  uint chunks;
  uint column_tiles;  // of 32
PUSH_END(RmsNormGradScalePush)

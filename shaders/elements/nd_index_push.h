#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// indices [batches, tuples, size] -> y [batches, tuples]
PUSH_BEGIN(NdIndexPush)
  uint count;   // elements of y
  uint tuples;  // of a batch
  uint size;    // indices of a tuple
  uint rows;    // of a batch: the product of dims
  uint dims[8];
PUSH_END(NdIndexPush)

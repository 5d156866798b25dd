#ifdef __cplusplus
#pragma once
#endif
#include "shaders/common/push.h"
// Kept and reduced axes are merged and alternate, so that there are at most four of each; innermost first. The
// outermost dim of either is not needed to take an index apart. `chunk` elements are reduced per workgroup and output,
// in `splits` parts; `total` is the count that a mean divides by.
PUSH_BEGIN(ReducePush)
uint outputs;
uint reduced;
uint total;
uint chunk;
uint splits;
uint kept_dims[3];
uint kept_strides[4];
uint reduced_dims[3];
uint reduced_strides[4];
PUSH_END(ReducePush)

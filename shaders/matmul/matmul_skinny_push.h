#include "shaders/common/push.h"
// C [rows, n] = A [rows, k] B, a handful of rows. By rows, k is a multiple of four; by columns, n is.
PUSH_BEGIN(MatmulSkinnyPush)
  uint n;
  uint k;
  uint groups;       // workgroups along n
  uint splits;       // parts of k (by columns); each writes its own copy of the output
  uint k_per_split;
  uint has_bias;     // never with splits > 1
PUSH_END(MatmulSkinnyPush)

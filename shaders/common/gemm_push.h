// The part of a push block that every implicit GEMM begins with (shaders/common/gemm.glsl). Shared by GLSL and C++.
//
// C[m, n] = sum over k of A[m, k] * B[k, n], for each of `batches` independent problems. k runs over
// outer * inner steps: k = t * inner + c, where A and B are linear in c for a fixed t.
#ifdef __cplusplus
#pragma once
#endif
#define GEMM_FIELDS                                                              \
  uint m;                                                                        \
  uint n;                                                                        \
  uint k;                                                                        \
  uint inner;                                                                    \
  uint tiles_m;                                                                  \
  uint tiles_n;                                                                  \
  uint batches;                                                                  \
  uint splits; /* parts of k, a copy of the output each: bits 0-15 the one to stop before, 16-31 the first one */ \
  uint k_per_split;                                                              \
  uint split_stride; /* elements from one copy of the output to the next */      \
  uint has_bias;     /* never where there are several parts */

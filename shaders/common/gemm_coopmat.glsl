// The GEMM tile for devices with matrix units: A and B blocks staged in shared memory as f16 (MATRIX_BF16: bf16),
// products of matrices that a subgroup shares, sums in f32. The next block is fetched while the last one is multiplied.
// GEMM_FLEXIBLE: a subgroup's part of the tile and of a block is one matrix each, of whatever size that is.
#include "shaders/common/matrix_operands.glsl"
#ifdef GEMM_FLEXIBLE
#extension GL_NV_cooperative_matrix2 : require
#endif

layout(constant_id = 0) const uint kThreads = 128;  // whole subgroups; whole fours of a block each
layout(constant_id = 16) const uint kMatM = 16;     // the device's matrices
layout(constant_id = 17) const uint kMatN = 16;
layout(constant_id = 18) const uint kMatK = 16;
layout(constant_id = 19) const uint kSubgroupsM = 2;  // of a workgroup
layout(constant_id = 20) const uint kSubgroupsN = 2;
layout(constant_id = 21) const uint kMatsM = 2;  // of a subgroup
layout(constant_id = 22) const uint kMatsN = 2;
layout(constant_id = 23) const uint kBlock = 32;      // of k
layout(constant_id = 24) const uint kVectorA = 0;     // four contiguous elements are one load: as in gemm_lane_vectors.glsl
layout(constant_id = 25) const uint kVectorB = 0;
layout(constant_id = 26) const bool kOneStep = false;  // k has one outer step
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
const uint kAlongK = 1;
const uint kAcross = 2;
const bool kAcrossA = kVectorA == kAcross;
const bool kAcrossB = kVectorB == kAcross;
const uint kTileM = kSubgroupsM * kMatsM * kMatM;
const uint kTileN = kSubgroupsN * kMatsN * kMatN;
const uint kQuadK = kBlock / 4;
const uint kQuadM = kTileM / 4;
const uint kQuadN = kTileN / 4;
const uint kPad = 2;  // keeps 16 bytes aligned and neighbouring rows in different banks
// Blocks lie as they are loaded: rows along k, or steps of k along the rows.
const uint kStrideA = (kAcrossA ? kQuadM : kQuadK) + kPad;
const uint kStrideB = (kAcrossB ? kQuadN : kQuadK) + kPad;
const uint kSharedA = kStrideA * (kAcrossA ? kBlock : kTileM);
const uint kSharedB = kStrideB * (kAcrossB ? kBlock : kTileN);
const uint kFoursA = kTileM * kQuadK / kThreads;
const uint kFoursB = kTileN * kQuadK / kThreads;
const uint kSums = kMatM * kMatN;

shared HALF4 block_a[kSharedA];
shared HALF4 block_b[kSharedB];
#ifdef GEMM_FLEXIBLE
// For each element of a matrix that begins at (m0, n0) of the output.
float store_element(const in uint row, const in uint column, const in float value, const in uint m0, const in uint n0,
                    const in uint copy) {
  const uint m = m0 + row;
  const uint n = n0 + column;
  if (m < p.m && n < p.n) {
    const uint address = out_row(m);
    if (address != kNowhere) out_store(copy + address + n, n, value);
  }
  return value;
}
#else
shared float sums[kSubgroupsM * kSubgroupsN * kSums];  // a matrix of each subgroup, on its way out
#endif

// Adds the products of the blocks in shared memory.
#define ADD_BLOCK                                      \
  [[unroll]] for (uint k = 0; k < kBlock; k += kMatK) {                                                     \
    coopmat<HALF, gl_ScopeSubgroup, kMatM, kMatK, gl_MatrixUseA> a[kMatsM];                                 \
    [[unroll]] for (uint i = 0; i < kMatsM; ++i) {                                                          \
      const uint m = (subgroup_m * kMatsM + i) * kMatM;                                                     \
      if (kAcrossA) {                                                                                       \
        coopMatLoad(a[i], block_a, k * kStrideA + m / 4, kStrideA, gl_CooperativeMatrixLayoutColumnMajor);  \
      } else {                                                                                              \
        coopMatLoad(a[i], block_a, m * kStrideA + k / 4, kStrideA, gl_CooperativeMatrixLayoutRowMajor);     \
      }                                                                                                     \
    }                                                                                                       \
    [[unroll]] for (uint j = 0; j < kMatsN; ++j) {                                                          \
      coopmat<HALF, gl_ScopeSubgroup, kMatK, kMatN, gl_MatrixUseB> b;                                       \
      const uint n = (subgroup_n * kMatsN + j) * kMatN;                                                     \
      if (kAcrossB) {                                                                                       \
        coopMatLoad(b, block_b, k * kStrideB + n / 4, kStrideB, gl_CooperativeMatrixLayoutRowMajor);        \
      } else {                                                                                              \
        coopMatLoad(b, block_b, n * kStrideB + k / 4, kStrideB, gl_CooperativeMatrixLayoutColumnMajor);     \
      }                                                                                                     \
      [[unroll]] for (uint i = 0; i < kMatsM; ++i) {                                                        \
        acc[i * kMatsN + j] = coopMatMulAdd(a[i], b, acc[i * kMatsN + j]);                                  \
      }                                                                                                     \
    }                                                                                                       \
  }                                                                                                        

#ifdef GEMM_VECTORS
#define TO_BLOCK(four) HALF4(before_half4(four))
#include "shaders/common/gemm_fours.glsl"
// Stores what LOAD_FOURS loaded, zeros where it was past the end.
#define STORE_FOURS(block, next, count, stride, across, quads, k0)                              \
  [[unroll]] for (uint j = 0; j < count; ++j) {                                                 \
    const uint i = thread + j * kThreads;                                                       \
    const uint k = across ? i / quads : i % kQuadK * 4;                                         \
    const uint at = across ? k * stride + i % quads : i / kQuadK * stride + k / 4;              \
    block[at] = (k0) + k < k_end ? next[j] : HALF4(0.0);                                        \
  }
#endif

void gemm_tile(Place place, uint k_begin, uint k_end) {
  const uint thread = gl_LocalInvocationIndex;
  const uint subgroup_m = gl_SubgroupID / kSubgroupsN;
  const uint subgroup_n = gl_SubgroupID % kSubgroupsN;
  coopmat<float, gl_ScopeSubgroup, kMatM, kMatN, gl_MatrixUseAccumulator> acc[kMatsM * kMatsN];
  [[unroll]] for (uint i = 0; i < kMatsM * kMatsN; ++i) {
    acc[i] = coopmat<float, gl_ScopeSubgroup, kMatM, kMatN, gl_MatrixUseAccumulator>(0.0);
  }
  Row rows[kFoursA];
  Col cols[kFoursB];
  [[unroll]] for (uint j = 0; j < kFoursA; ++j) {
    const uint i = thread + j * kThreads;
    rows[j] = a_row(place.m0 + (kAcrossA ? i % kQuadM * 4 : i / kQuadK));
  }
  [[unroll]] for (uint j = 0; j < kFoursB; ++j) {
    const uint i = thread + j * kThreads;
    cols[j] = b_col(place.n0 + (kAcrossB ? i % kQuadN * 4 : i / kQuadK));
  }

#ifdef GEMM_VECTORS
  if (kVectorA * kVectorB != 0) {
    // The next block comes while this one is multiplied. No branch stands between the loads and the end of the loop's
    // body, or compilers sink the loads behind the products.
    if (k_begin < k_end) {
      HALF4 next_a[kFoursA];
      HALF4 next_b[kFoursB];
      LOAD_FOURS(next_a, kFoursA, rows, a_at, a_load4, kAcrossA, kQuadM, k_begin)
      LOAD_FOURS(next_b, kFoursB, cols, b_at, b_load4, kAcrossB, kQuadN, k_begin)
      uint k0 = k_begin;
      while (true) {
        barrier();  // the last block has been read
        STORE_FOURS(block_a, next_a, kFoursA, kStrideA, kAcrossA, kQuadM, k0)
        STORE_FOURS(block_b, next_b, kFoursB, kStrideB, kAcrossB, kQuadN, k0)
        barrier();
        k0 += kBlock;
        if (k0 >= k_end) break;
        LOAD_FOURS(next_a, kFoursA, rows, a_at, a_load4, kAcrossA, kQuadM, k0)
        LOAD_FOURS(next_b, kFoursB, cols, b_at, b_load4, kAcrossB, kQuadN, k0)
        ADD_BLOCK
      }
      ADD_BLOCK
    }
  } else
#endif
  for (uint k0 = k_begin;; k0 += kBlock) {
    vec4 next_a[kFoursA];
    vec4 next_b[kFoursB];
    if (k0 < k_end) {
      [[unroll]] for (uint j = 0; j < kFoursA; ++j) {
        const uint i = thread + j * kThreads;
        const uint k = k0 + (kAcrossA ? i / kQuadM : i % kQuadK * 4);
        const uint t = kOneStep ? 0 : k / p.inner;
        const uint c = k - t * p.inner;
        next_a[j] = vec4(0.0);
        if (k < k_end) {
          const Ptr ptr = a_at(rows[j], t);
#if defined(GEMM_QUADS)
          next_a[j] = a_load4(ptr, c, k_end - k);
#else
#ifdef GEMM_VECTORS
          if (kVectorA != 0) {
            next_a[j] = a_load4(ptr, c);
          } else
#endif
          {
            [[unroll]] for (uint q = 0; q < 4; ++q) {
              // The four may reach into the next outer step.
              const uint tq = kOneStep ? 0 : (k + q) / p.inner;
              if (k + q < k_end) next_a[j][q] = a_load(tq == t ? ptr : a_at(rows[j], tq), k + q - tq * p.inner);
            }
          }
#endif
        }
      }
      [[unroll]] for (uint j = 0; j < kFoursB; ++j) {
        const uint i = thread + j * kThreads;
        const uint k = k0 + (kAcrossB ? i / kQuadN : i % kQuadK * 4);
        const uint t = kOneStep ? 0 : k / p.inner;
        const uint c = k - t * p.inner;
        next_b[j] = vec4(0.0);
        if (k < k_end) {
          const Ptr ptr = b_at(cols[j], t);
#if defined(GEMM_QUADS)
          next_b[j] = b_load4(ptr, c, k_end - k);
#elif defined(GEMM_QUAD_COLUMNS)
          next_b[j] = b_columns(ptr, c);
#else
#ifdef GEMM_VECTORS
          if (kVectorB != 0) {
            next_b[j] = b_load4(ptr, c);
          } else
#endif
          {
            [[unroll]] for (uint q = 0; q < 4; ++q) {
              const uint tq = kOneStep ? 0 : (k + q) / p.inner;
              if (k + q < k_end) next_b[j][q] = b_load(tq == t ? ptr : b_at(cols[j], tq), k + q - tq * p.inner);
            }
          }
#endif
        }
      }
    }
    if (k0 > k_begin) {
      ADD_BLOCK
    }
    if (k0 >= k_end) break;
    barrier();  // the last block has been read
    [[unroll]] for (uint j = 0; j < kFoursA; ++j) {
      const uint i = thread + j * kThreads;
      const uint at = kAcrossA ? i / kQuadM * kStrideA + i % kQuadM : i / kQuadK * kStrideA + i % kQuadK;
      block_a[at] = HALF4(before_half4(next_a[j]));
    }
    [[unroll]] for (uint j = 0; j < kFoursB; ++j) {
      const uint i = thread + j * kThreads;
      const uint at = kAcrossB ? i / kQuadN * kStrideB + i % kQuadN : i / kQuadK * kStrideB + i % kQuadK;
      block_b[at] = HALF4(before_half4(next_b[j]));
    }
    barrier();
  }

  const uint copy = place.copy * p.split_stride;
#ifdef GEMM_FLEXIBLE
  [[unroll]] for (uint i = 0; i < kMatsM; ++i) {
    [[unroll]] for (uint j = 0; j < kMatsN; ++j) {
      const uint m = place.m0 + (subgroup_m * kMatsM + i) * kMatM;
      const uint n = place.n0 + (subgroup_n * kMatsN + j) * kMatN;
      coopMatPerElementNV(acc[i * kMatsN + j], acc[i * kMatsN + j], store_element, m, n, copy);
    }
  }
#else
  // Elements of a matrix have no known place in an invocation: each goes out through shared memory.
  const uint stage = gl_SubgroupID * kSums;
  [[unroll]] for (uint i = 0; i < kMatsM; ++i) {
    [[unroll]] for (uint j = 0; j < kMatsN; ++j) {
      coopMatStore(acc[i * kMatsN + j], sums, stage, kMatN, gl_CooperativeMatrixLayoutRowMajor);
      controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
      for (uint e = gl_SubgroupInvocationID; e < kSums; e += gl_SubgroupSize) {
        const uint m = place.m0 + (subgroup_m * kMatsM + i) * kMatM + e / kMatN;
        const uint n = place.n0 + (subgroup_n * kMatsN + j) * kMatN + e % kMatN;
        if (m < p.m && n < p.n) {
          const uint address = out_row(m);
          if (address != kNowhere) out_store(copy + address + n, n, sums[stage + e]);
        }
      }
      controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared, gl_SemanticsAcquireRelease);
    }
  }
#endif
}

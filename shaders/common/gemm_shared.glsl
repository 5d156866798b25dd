// The GEMM tile for GPUs: A and B blocks staged in shared memory, kRowsPer x kColsPer outputs in registers of each
// invocation. Needs Vulkan 1.1 core only; at most 128 invocations and 8 KiB of shared memory with the tiles in use where
// kAhead is 0. Blocks are of fours: a GPU loads four numbers of shared memory by one instruction, but its compiler does
// not always see that four loads are one.
#ifdef GEMM_VECTORS
#define TO_BLOCK(four) four
#include "shaders/common/gemm_fours.glsl"
#endif

layout(constant_id = 0) const uint kThreads = 128;  // a multiple of kTileM and of kTileN, or a divisor of neither
layout(constant_id = 1) const uint kThreadsN = 8;
layout(constant_id = 2) const uint kRowsPer = 4;
layout(constant_id = 3) const uint kColsPer = 8;
// Four contiguous elements are one load: 1 along k, 2 along the rows of A (columns of B), 0 neither. Not where an
// invocation stages fewer than four.
layout(constant_id = 5) const uint kVectorA = 0;
layout(constant_id = 6) const uint kVectorB = 0;
layout(constant_id = 7) const bool kStoreFours = false;  // where n is a multiple of four
layout(constant_id = 8) const bool kOneStep = false;     // k has one outer step
// 1: the next block is loaded while one is multiplied, and stored beside it. Only where both operands come in fours.
#ifdef GEMM_VECTORS
layout(constant_id = 9) const uint kAhead = 0;
#else
const uint kAhead = 0;
#endif
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
const uint kAlongK = 1;
const uint kAcross = 2;
const bool kAcrossA = kVectorA == kAcross;
const bool kAcrossB = kVectorB == kAcross;
const uint kThreadsM = kThreads / kThreadsN;
const uint kTileM = kThreadsM * kRowsPer;
const uint kTileN = kThreadsN * kColsPer;
const uint kBlock = 16;
const uint kQuadK = kBlock / 4;
const uint kAtOnce = 4 + 4 * kAhead;  // steps of k without a jump between
// Each invocation stages one row of A and one column of B, over its share of the block's k; or a four of rows (columns)
// in some of its steps.
const uint kShareA = kBlock * kTileM / kThreads;
const uint kShareB = kBlock * kTileN / kThreads;
const uint kQuadM = kTileM / 4;
const uint kQuadN = kTileN / 4;
// Fours of a block that an invocation loads ahead: one for arrays' sake where it would be a part of one. What lies along
// k is stored number by number, each to another step of k, which therefore begin in different banks.
const uint kFoursA = (kTileM * kQuadK + kThreads - 1) / kThreads;
const uint kFoursB = (kTileN * kQuadK + kThreads - 1) / kThreads;
const uint kStrideA = kQuadM + kAhead;
const uint kStrideB = kQuadN + kAhead;
// Neighbouring invocations own neighbouring columns, or fours of them.
const bool kFourRows = kRowsPer % 4 == 0;
const bool kFourColumns = kColsPer % 4 == 0;

#include "shaders/common/gemm_shared_block.glsl"

void gemm_tile(Place place, uint k_begin, uint k_end) {
  const uint thread = gl_LocalInvocationIndex;
  const uint thread_n = thread % kThreadsN;
  const uint thread_m = thread / kThreadsN;
  const uint my_m = kAcrossA ? thread % kQuadM * 4 : thread % kTileM;
  const uint my_n = kAcrossB ? thread % kQuadN * 4 : thread % kTileN;
  const uint my_ka = kAcrossA ? thread / kQuadM : thread / kTileM * kShareA;
  const uint my_kb = kAcrossB ? thread / kQuadN : thread / kTileN * kShareB;
  const Row row = a_row(place.m0 + my_m);
  const Col col = b_col(place.n0 + my_n);
  float acc[kRowsPer * kColsPer];
  [[unroll]] for (uint i = 0; i < kRowsPer * kColsPer; ++i) acc[i] = 0.0;

#ifdef GEMM_VECTORS
  if (kAhead != 0) {
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
    if (k_begin < k_end) {
      vec4 next_a[kFoursA];
      vec4 next_b[kFoursB];
      uint at = 0;
      uint k0 = k_begin;
      LOAD_FOURS(next_a, kFoursA, rows, a_at, a_load4, kAcrossA, kQuadM, k0)
      LOAD_FOURS(next_b, kFoursB, cols, b_at, b_load4, kAcrossB, kQuadN, k0)
      while (true) {
        STORE_FOURS(shared_a, put_a, next_a, kFoursA, kStrideA, kAcrossA, kQuadM, at, k0)
        STORE_FOURS(shared_b, put_b, next_b, kFoursB, kStrideB, kAcrossB, kQuadN, at, k0)
        barrier();  // nobody reads the other block any more, either
        k0 += kBlock;
        LOAD_FOURS(next_a, kFoursA, rows, a_at, a_load4, kAcrossA, kQuadM, k0)
        LOAD_FOURS(next_b, kFoursB, cols, b_at, b_load4, kAcrossB, kQuadN, k0)
        ADD_BLOCK(at)
        if (k0 >= k_end) break;
        at = kBlock - at;
      }
    }
  } else
#endif
  for (uint k0 = k_begin; k0 < k_end; k0 += kBlock) {
    barrier();
    uint k = k0 + my_ka;
    uint t = kOneStep ? 0 : k / p.inner;
    uint c = k - t * p.inner;
    Ptr pa = a_at(row, t);
#ifdef GEMM_VECTORS
    if (kAcrossA) {
      [[unroll]] for (uint i = 0; i < kShareA / 4; ++i) {
        vec4 four = vec4(0.0);
        if (k < k_end) four = a_load4(pa, c);
        shared_a[(my_ka + i * (kThreads / kQuadM)) * kStrideA + my_m / 4] = four;
        k += kThreads / kQuadM;
        c += kThreads / kQuadM;
        if (!kOneStep && c >= p.inner && k < k_end) {
          t = k / p.inner;
          c = k - t * p.inner;
          pa = a_at(row, t);
        }
      }
    } else
#endif
#if defined(GEMM_VECTORS) || defined(GEMM_VECTOR_ROWS)
    if (kVectorA == kAlongK) {
      [[unroll]] for (uint i = 0; i < kShareA; i += 4) {
        vec4 four = vec4(0.0);
        if (k < k_end) four = a_load4(pa, c);
        [[unroll]] for (uint q = 0; q < 4; ++q) put_a(my_ka + i + q, my_m, four[q]);
        k += 4;
        c += 4;
        if (!kOneStep && c >= p.inner && k < k_end) {
          c = 0;
          pa = a_at(row, ++t);
        }
      }
    } else
#endif
    for (uint i = 0; i < kShareA; ++i) {
      put_a(my_ka + i, my_m, k < k_end ? a_load(pa, c) : 0.0);
      ++k;
      if (++c == p.inner && k < k_end) {
        c = 0;
        pa = a_at(row, ++t);
      }
    }
    k = k0 + my_kb;
    t = kOneStep ? 0 : k / p.inner;
    c = k - t * p.inner;
    Ptr pb = b_at(col, t);
#ifdef GEMM_QUADS
    for (uint i = 0; i < kShareB; i += 4) {
      vec4 four = vec4(0.0);
      if (k < k_end) four = b_load4(pb, c, k_end - k);
      [[unroll]] for (uint q = 0; q < 4; ++q) put_b(my_kb + i + q, my_n, four[q]);
      k += 4;
      c += 4;
      if (c >= p.inner && k < k_end) {
        c = 0;
        pb = b_at(col, ++t);
      }
    }
#else
#if defined(GEMM_VECTORS) || defined(GEMM_QUAD_COLUMNS)
    if (kAcrossB) {
      [[unroll]] for (uint i = 0; i < kShareB / 4; ++i) {
        vec4 four = vec4(0.0);
#ifdef GEMM_QUAD_COLUMNS
        if (k < k_end) four = b_columns(pb, c);
#else
        if (k < k_end) four = b_load4(pb, c);
#endif
        shared_b[(my_kb + i * (kThreads / kQuadN)) * kStrideB + my_n / 4] = four;
        k += kThreads / kQuadN;
        c += kThreads / kQuadN;
        if (!kOneStep && c >= p.inner && k < k_end) {
          t = k / p.inner;
          c = k - t * p.inner;
          pb = b_at(col, t);
        }
      }
    } else
#endif
#ifdef GEMM_VECTORS
    if (kVectorB == kAlongK) {
      [[unroll]] for (uint i = 0; i < kShareB; i += 4) {
        vec4 four = vec4(0.0);
        if (k < k_end) four = b_load4(pb, c);
        [[unroll]] for (uint q = 0; q < 4; ++q) put_b(my_kb + i + q, my_n, four[q]);
        k += 4;
        c += 4;
        if (!kOneStep && c >= p.inner && k < k_end) {
          c = 0;
          pb = b_at(col, ++t);
        }
      }
    } else
#endif
    for (uint i = 0; i < kShareB; ++i) {
      put_b(my_kb + i, my_n, k < k_end ? b_load(pb, c) : 0.0);
      ++k;
      if (++c == p.inner && k < k_end) {
        c = 0;
        pb = b_at(col, ++t);
      }
    }
#endif
    barrier();
    ADD_BLOCK(0)
  }

  const uint copy = place.copy * p.split_stride;
  [[unroll]] for (uint r = 0; r < kRowsPer; ++r) {
    const uint m = place.m0 + thread_m * kRowsPer + r;
    if (m < p.m) {
      const uint address = out_row(m);
#ifdef GEMM_STORES_FOURS
      if (kStoreFours) {
        [[unroll]] for (uint s = 0; s < kColsPer; s += 4) {
          const uint n = place.n0 + column_of(thread_n, s);
          // Fewer columns have no fours, but are compiled too.
          const vec4 four = vec4(acc[r * kColsPer + s], acc[r * kColsPer + min(s + 1, kColsPer - 1)],
                                 acc[r * kColsPer + min(s + 2, kColsPer - 1)],
                                 acc[r * kColsPer + min(s + 3, kColsPer - 1)]);
          if (n < p.n && address != kNowhere) out_store4(copy + address + n, n, four);
        }
      } else
#endif
      [[unroll]] for (uint s = 0; s < kColsPer; ++s) {
        const uint n = place.n0 + column_of(thread_n, s);
        if (n < p.n && address != kNowhere) out_store(copy + address + n, n, acc[r * kColsPer + s]);
      }
    }
  }
}

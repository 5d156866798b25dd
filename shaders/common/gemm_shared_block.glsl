// The blocks of gemm_shared.glsl in shared memory: how numbers get there, and the products of a block. After the tile's
// constants.

shared vec4 shared_a[(1 + kAhead) * kBlock * kStrideA];
shared vec4 shared_b[(1 + kAhead) * kBlock * kStrideB];

void put_a(uint k, uint m, float value) { shared_a[k * kStrideA + m / 4][m % 4] = value; }
void put_b(uint k, uint n, float value) { shared_b[k * kStrideB + n / 4][n % 4] = value; }

#ifdef GEMM_VECTORS
// Stores what LOAD_FOURS loaded from step `first` of shared memory on, zeros where it was past the end.
#define STORE_FOURS(shared_block, put, next, count, stride, across, quads, first, k0)                     \
  [[unroll]] for (uint j = 0; j < count; ++j) {                                                           \
    const uint i = thread + j * kThreads;                                                                 \
    const uint k = across ? i / quads : i % kQuadK * 4;                                                   \
    const vec4 four = (k0) + k < k_end ? next[j] : vec4(0.0);                                             \
    if (across) {                                                                                         \
      shared_block[((first) + k) * stride + i % quads] = four;                                            \
    } else {                                                                                              \
      [[unroll]] for (uint q = 0; q < 4; ++q) put((first) + k + q, i / kQuadK, four[q]);                  \
    }                                                                                                     \
  }
#endif

// The column of the tile that is an invocation's own column s.
uint column_of(uint thread_n, uint s) {
  return kFourColumns ? (s / 4 * kThreadsN + thread_n) * 4 + s % 4 : s * kThreadsN + thread_n;
}

// Adds the products of the block that begins at step `at` of shared memory.
#define ADD_BLOCK(at)                                                                                                 \
  for (uint first = 0; first < kBlock; first += kAtOnce) {                                                            \
    [[unroll]] for (uint step = 0; step < kAtOnce; ++step) {                                                          \
      const uint at_a = ((at) + first + step) * kStrideA;                                                             \
      const uint at_b = ((at) + first + step) * kStrideB;                                                             \
      float a[kRowsPer];                                                                                              \
      float b[kColsPer];                                                                                              \
      if (kFourRows) {                                                                                                \
        [[unroll]] for (uint r = 0; r < kRowsPer; r += 4) {                                                           \
          const vec4 four = shared_a[at_a + (thread_m * kRowsPer + r) / 4];                                           \
          [[unroll]] for (uint q = 0; q < 4; ++q) a[min(r + q, kRowsPer - 1)] = four[q];                              \
        }                                                                                                             \
      } else {                                                                                                        \
        [[unroll]] for (uint r = 0; r < kRowsPer; ++r) {                                                              \
          const uint m = thread_m * kRowsPer + r;                                                                     \
          a[r] = shared_a[at_a + m / 4][m % 4];                                                                       \
        }                                                                                                             \
      }                                                                                                               \
      if (kFourColumns) {                                                                                             \
        [[unroll]] for (uint s = 0; s < kColsPer; s += 4) {                                                           \
          const vec4 four = shared_b[at_b + s / 4 * kThreadsN + thread_n];                                            \
          [[unroll]] for (uint q = 0; q < 4; ++q) b[min(s + q, kColsPer - 1)] = four[q];                              \
        }                                                                                                             \
      } else {                                                                                                        \
        [[unroll]] for (uint s = 0; s < kColsPer; ++s) {                                                              \
          const uint n = column_of(thread_n, s);                                                                      \
          b[s] = shared_b[at_b + n / 4][n % 4];                                                                       \
        }                                                                                                             \
      }                                                                                                               \
      [[unroll]] for (uint r = 0; r < kRowsPer; ++r) {                                                                \
        [[unroll]] for (uint s = 0; s < kColsPer; ++s) acc[r * kColsPer + s] += a[r] * b[s];                          \
      }                                                                                                               \
    }                                                                                                                 \
  }

// The GEMM tile for GPUs: A and B blocks staged in shared memory, kRowsPer x kColsPer outputs in registers of each
// invocation. Needs Vulkan 1.1 core only; at most 128 invocations and 8 KiB of shared memory with the tiles in use.

layout(constant_id = 0) const uint kThreads = 128;  // a multiple of kTileM and of kTileN, or a divisor of neither
layout(constant_id = 1) const uint kThreadsN = 8;
layout(constant_id = 2) const uint kRowsPer = 4;
layout(constant_id = 3) const uint kColsPer = 8;
layout(local_size_x_id = 0, local_size_y = 1, local_size_z = 1) in;
const uint kThreadsM = kThreads / kThreadsN;
const uint kTileM = kThreadsM * kRowsPer;
const uint kTileN = kThreadsN * kColsPer;
const uint kBlock = 16;
const bool kAcrossA = false;
const bool kAcrossB = false;
// Each invocation stages one row of A and one column of B, over its share of the block's k.
const uint kShareA = kBlock * kTileM / kThreads;
const uint kShareB = kBlock * kTileN / kThreads;

shared float shared_a[kBlock * kTileM];
shared float shared_b[kBlock * kTileN];

void gemm_tile(Place place, uint k_begin, uint k_end) {
  const uint thread = gl_LocalInvocationIndex;
  const uint thread_n = thread % kThreadsN;
  const uint thread_m = thread / kThreadsN;
  const uint my_m = thread % kTileM;
  const uint my_n = thread % kTileN;
  const uint my_ka = thread / kTileM * kShareA;
  const uint my_kb = thread / kTileN * kShareB;
  const Row row = a_row(place.m0 + my_m);
  const Col col = b_col(place.n0 + my_n);
  float acc[kRowsPer * kColsPer];
  [[unroll]] for (uint i = 0; i < kRowsPer * kColsPer; ++i) acc[i] = 0.0;

  for (uint k0 = k_begin; k0 < k_end; k0 += kBlock) {
    barrier();
    uint k = k0 + my_ka;
    uint t = k / p.inner;
    uint c = k - t * p.inner;
    Ptr ptr = a_at(row, t);
    for (uint i = 0; i < kShareA; ++i) {
      shared_a[(my_ka + i) * kTileM + my_m] = k < k_end ? a_load(ptr, c) : 0.0;
      ++k;
      if (++c == p.inner && k < k_end) {
        c = 0;
        ptr = a_at(row, ++t);
      }
    }
    k = k0 + my_kb;
    t = k / p.inner;
    c = k - t * p.inner;
    ptr = b_at(col, t);
#ifdef GEMM_QUADS
    for (uint i = 0; i < kShareB; i += 4) {
      vec4 four = vec4(0.0);
      if (k < k_end) four = b_load4(ptr, c, k_end - k);
      [[unroll]] for (uint q = 0; q < 4; ++q) shared_b[(my_kb + i + q) * kTileN + my_n] = four[q];
      k += 4;
      c += 4;
      if (c >= p.inner && k < k_end) {
        c = 0;
        ptr = b_at(col, ++t);
      }
    }
#else
    for (uint i = 0; i < kShareB; ++i) {
      shared_b[(my_kb + i) * kTileN + my_n] = k < k_end ? b_load(ptr, c) : 0.0;
      ++k;
      if (++c == p.inner && k < k_end) {
        c = 0;
        ptr = b_at(col, ++t);
      }
    }
#endif
    barrier();
    for (uint i = 0; i < kBlock; ++i) {
      float a[kRowsPer];
      float b[kColsPer];
      [[unroll]] for (uint r = 0; r < kRowsPer; ++r) a[r] = shared_a[i * kTileM + thread_m * kRowsPer + r];
      [[unroll]] for (uint s = 0; s < kColsPer; ++s) b[s] = shared_b[i * kTileN + s * kThreadsN + thread_n];
      [[unroll]] for (uint r = 0; r < kRowsPer; ++r) {
        [[unroll]] for (uint s = 0; s < kColsPer; ++s) acc[r * kColsPer + s] += a[r] * b[s];
      }
    }
  }

  const uint copy = place.copy * p.split_stride;
  [[unroll]] for (uint r = 0; r < kRowsPer; ++r) {
    const uint m = place.m0 + thread_m * kRowsPer + r;
    if (m < p.m) {
      const uint address = out_row(m);
      [[unroll]] for (uint s = 0; s < kColsPer; ++s) {
        const uint n = place.n0 + s * kThreadsN + thread_n;
        if (n < p.n && address != kNowhere) out_store(copy + address + n, n, acc[r * kColsPer + s]);
      }
    }
  }
}

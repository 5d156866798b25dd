// Loads of tiles that fetch a block of k ahead, by fours: of a gemm with GEMM_VECTORS. Before the include: TO_BLOCK(four),
// what is kept of a loaded vec4. In the tile: thread, k_end, kThreads, kQuadK and kOneStep.

// Loads the fours of the block of k that begins at `k0`. Without a branch, at whose end a compiler would wait for them:
// what is past the end is the last four again.
#define LOAD_FOURS(next, count, rows, at, load4, across, quads, k0)                             \
  [[unroll]] for (uint j = 0; j < count; ++j) {                                                 \
    const uint i = thread + j * kThreads;                                                       \
    const uint last = across ? k_end - 1 : (k_end - 1) & ~3u;                                   \
    const uint k = min((k0) + (across ? i / quads : i % kQuadK * 4), last);                     \
    const uint t = kOneStep ? 0 : k / p.inner;                                                  \
    next[j] = TO_BLOCK(load4(at(rows[j], t), k - t * p.inner));                                 \
  }

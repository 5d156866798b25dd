// Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
// A block of four words for a counter and a key. The host's twin is runtime/core/philox.h.
#ifndef GRAFT_RNG_GLSL
#define GRAFT_RNG_GLSL

uvec4 philox(uvec4 counter, uvec2 key) {
  for (uint turn = 0; turn < 10; ++turn) {
    uint high0, low0, high2, low2;
    umulExtended(0xD2511F53u, counter.x, high0, low0);
    umulExtended(0xCD9E8D57u, counter.z, high2, low2);
    counter = uvec4(high2 ^ counter.y ^ key.x, low2, high0 ^ counter.w ^ key.y, low0);
    key += uvec2(0x9E3779B9u, 0xBB67AE85u);
  }
  return counter;
}

#endif

// Compiled with -mavx2: nothing is included whose inline functions another file could have, too, since the linker keeps
// one of each, perhaps that of here.
#include "platform/base/hash_avx2.h"

#include <immintrin.h>

#define XXH_INLINE_ALL  // static functions
#include <xxhash.h>

namespace graft {

// The upper halves of the registers are emptied: while they are not, switching threads and all else is slower, by a
// quarter where processes on one machine send each other tensors. GCC 12 leaves that out here.

std::uint64_t hash64_avx2(const void* bytes, std::size_t count) {
  const std::uint64_t hash = XXH3_64bits(bytes, count);
  _mm256_zeroupper();
  return hash;
}

void hash128_avx2(const void* bytes, std::size_t count, std::uint64_t out[2]) {
  const XXH128_hash_t hash = XXH3_128bits(bytes, count);
  _mm256_zeroupper();
  out[0] = hash.low64;
  out[1] = hash.high64;
}

}  // namespace graft

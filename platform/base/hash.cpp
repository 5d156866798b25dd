#include "platform/base/hash.h"

#include <cstdio>

#include "platform/base/hash_avx2.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace graft {
namespace {

#if defined(GRAFT_HASH_AVX2)
const bool kHasAvx2 = __builtin_cpu_supports("avx2");
#endif

}  // namespace

Hash128 hash128(std::span<const std::byte> bytes) {
#if defined(GRAFT_HASH_AVX2)
  if (kHasAvx2) {
    std::uint64_t halves[2];
    hash128_avx2(bytes.data(), bytes.size(), halves);
    return {halves[0], halves[1]};
  }
#endif
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

Hash128 hash128(std::span<const std::span<const std::byte>> parts) {
  XXH3_state_t state;  // on the stack: no allocation that could fail
  XXH3_128bits_reset(&state);
  for (const auto part : parts) XXH3_128bits_update(&state, part.data(), part.size());
  const XXH128_hash_t hash = XXH3_128bits_digest(&state);
  return {hash.low64, hash.high64};
}

std::uint64_t hash64(std::span<const std::byte> bytes) {
#if defined(GRAFT_HASH_AVX2)
  if (kHasAvx2) return hash64_avx2(bytes.data(), bytes.size());
#endif
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::string hash_text(const Hash128& hash) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high),
                static_cast<unsigned long long>(hash.low));
  return text;
}

}  // namespace graft

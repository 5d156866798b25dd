// Checksums are xxHash's own, whatever instructions compute them.
#include "platform/base/hash.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#define XXH_INLINE_ALL
#define XXH_VECTOR XXH_SCALAR
#include <xxhash.h>

namespace graft::hash_test {
namespace {

TEST(Hash, IsThatOfXxhashWithoutVectors) {
  std::vector<std::byte> bytes(300'007);
  std::mt19937 random(5);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  std::vector<std::size_t> sizes;
  for (std::size_t size = 0; size < 1100; ++size) sizes.push_back(size);
  for (const std::size_t size : {4095, 65'536, 65'537, 300'000}) sizes.push_back(size);
  for (const std::size_t size : sizes) {
    const std::span part = std::span(bytes).subspan(size % 7, size);  // wherever it begins
    const XXH128_hash_t wanted = XXH3_128bits(part.data(), part.size());
    EXPECT_EQ(hash128(part), (Hash128{wanted.low64, wanted.high64})) << size;
    EXPECT_EQ(hash64(part), XXH3_64bits(part.data(), part.size())) << size;
    const std::span<const std::byte> halves[] = {part.first(size / 2), part.subspan(size / 2)};
    EXPECT_EQ(hash128(halves), (Hash128{wanted.low64, wanted.high64})) << size;
  }
}

}  // namespace
}  // namespace graft::hash_test

// Codecs: every arrangement is undone exactly, chosen where it is the smallest, and refused where it is damaged.
#include "runtime/checkpoint/codec.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/support/guarded_bytes.h"

namespace graft::test::codec_test {
namespace {

using namespace checkpoint;
using Bytes = std::vector<std::byte>;

constexpr Codec kCodecs[] = {Codec::plain, Codec::planes, Codec::delta_planes, Codec::xor_planes, Codec::sparse};

Bytes random_bytes(std::size_t size, std::mt19937& random) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

/// `parent` with the given share of bytes changed.
Bytes changed(const Bytes& parent, double share, std::mt19937& random) {
  Bytes bytes = parent;
  std::bernoulli_distribution changes(share);
  for (std::byte& byte : bytes) {
    if (changes(random)) byte = static_cast<std::byte>(random());
  }
  return bytes;
}

TEST(CheckpointCodec, EveryArrangementIsUndoneExactly) {
  std::mt19937 random(1);
  for (const std::size_t size : {1u, 3u, 4u, 7u, 64u, 1000u, 4096u, 70001u}) {
    for (const double share : {0.0, 0.0005, 0.01, 0.1, 1.0}) {
      const Bytes parent = random_bytes(size, random), bytes = changed(parent, share, random);
      for (const Codec codec : kCodecs) {
        for (const std::size_t width : {1u, 2u, 4u}) {
          if (!suits(codec, width)) continue;
          Bytes arranged(size), got(size);
          const std::size_t filled = arrange(codec, width, bytes, parent, arranged);
          ASSERT_LE(filled, size);
          ASSERT_TRUE(filled == size || codec == Codec::sparse);
          if (filled == 0) continue;
          arranged.resize(filled);
          ASSERT_TRUE(restore_arranged(codec, width, arranged, parent, got));
          ASSERT_EQ(got, bytes) << static_cast<int>(codec) << ", width " << width << ", " << size << " bytes";
        }
      }
    }
  }
}

TEST(CheckpointCodec, FewChangesTakeFewBytes) {
  std::mt19937 random(2);
  std::vector<float> before(65536, 0.0f), after;
  for (float& value : before) value = static_cast<float>(random()) * 0x1p-32f;
  after = before;
  for (std::size_t i = random() % 500; i < after.size(); i += random() % 500) after[i] *= 1.0001f;
  const auto parent = std::as_bytes(std::span(before)), bytes = std::as_bytes(std::span(after));
  Bytes arranged(bytes.size());
  EXPECT_LT(arrange(Codec::sparse, 4, bytes, parent, arranged), 2000u);  // some 260 elements of 4 bytes and a gap each
  EXPECT_EQ(arrange(Codec::sparse, 4, random_bytes(bytes.size(), random), parent, arranged), 0u);
  ChunkEncoder encoder;
  const auto encoded = encoder.encode(bytes, parent, 4, true, 1);
  ASSERT_TRUE(encoded.ok());
  EXPECT_EQ(encoded->codec, Codec::sparse);
  EXPECT_LT(encoded->bytes.size(), 1000u);
}

TEST(CheckpointCodec, TheSmallestArrangementIsTaken) {
  std::mt19937 random(3);
  ChunkEncoder encoder;
  ChunkDecoder decoder;
  std::normal_distribution<float> normal(0.0f, 1.0f);
  std::vector<float> before(16384), after(16384);
  for (std::size_t i = 0; i < before.size(); ++i) {
    before[i] = normal(random);
    after[i] = before[i] * (1.0f + 1e-6f * normal(random));
  }
  const auto parent = std::as_bytes(std::span(before)), bytes = std::as_bytes(std::span(after));
  const auto encoded = encoder.encode(bytes, parent, 4, true, 1);
  ASSERT_TRUE(encoded.ok());
  EXPECT_EQ(encoded->codec, Codec::delta_planes);
  Bytes got(bytes.size());
  ASSERT_TRUE(decoder.decode(encoded->codec, encoded->compression, 4, encoded->bytes, parent, got).ok());
  EXPECT_TRUE(std::equal(got.begin(), got.end(), bytes.begin()));
  const auto alone = encoder.encode(bytes, {}, 4, true, 1);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(alone->codec, Codec::planes);
  const Bytes noise = random_bytes(5000, random);
  EXPECT_EQ(encoder.encode(noise, {}, 1, false, 1)->compression, Compression::none);
}

TEST(CheckpointCodec, DamagedArrangementsAreRefusedOrFillTheirBytes) {
  std::mt19937 random(4);
  const Bytes parent = random_bytes(999, random), bytes = changed(parent, 0.02, random);
  Bytes good(bytes.size()), got(bytes.size());
  good.resize(arrange(Codec::sparse, 4, bytes, parent, good));
  ASSERT_GT(good.size(), 20u);
  for (std::size_t size = 0; size < good.size(); ++size) {
    GuardedBytes part(std::span<const std::byte>(good).first(size));
    EXPECT_FALSE(restore_arranged(Codec::sparse, 4, part.bytes(), parent, got)) << size;
  }
  std::size_t refused = 0;
  for (int i = 0; i < 20000; ++i) {
    Bytes bad = good;
    for (unsigned n = 1 + random() % 3; n > 0; --n) bad[random() % bad.size()] = static_cast<std::byte>(random());
    refused += restore_arranged(Codec::sparse, 4, bad, parent, got) ? 0 : 1;
  }
  EXPECT_GT(refused, 1000u);
  for (const Codec codec : {Codec::plain, Codec::planes, Codec::delta_planes, Codec::xor_planes}) {
    EXPECT_FALSE(restore_arranged(codec, 4, std::span(good).first(100), parent, got));
  }
}

}  // namespace
}  // namespace graft::test::codec_test

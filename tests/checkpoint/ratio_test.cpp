// ctest: middle
// What a snapshot of training state costs: bytes against the raw state and against zstd -3, and MB/s. The state is that
// of Adam on noisy gradients of a quadratic bowl, which is harder to compress than most: every element changes.
#include <gtest/gtest.h>
#include <zstd.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <random>

#include "platform/os/clock.h"
#include "runtime/checkpoint/store.h"
#include "tests/support/files/power_files.h"

namespace graft::test::ratio_test {
namespace {

using namespace checkpoint;

struct Adam {
  std::vector<float> weight, goal, first, second;
  std::mt19937 random{5};
  int step = 0;

  explicit Adam(std::size_t count) : weight(count), goal(count), first(count), second(count) {
    std::normal_distribution<float> normal(0.0f, 0.05f);
    for (std::size_t i = 0; i < count; ++i) weight[i] = normal(random), goal[i] = weight[i] + normal(random);
  }
  void train(int steps, float rate) {
    std::normal_distribution<float> noise(0.0f, 0.02f);
    for (const int end = step + steps; step < end;) {
      ++step;
      const float a = 1.0f - std::pow(0.9f, static_cast<float>(step)),
                  b = 1.0f - std::pow(0.999f, static_cast<float>(step));
      for (std::size_t i = 0; i < weight.size(); ++i) {
        const float gradient = weight[i] - goal[i] + noise(random);
        first[i] = 0.9f * first[i] + 0.1f * gradient;
        second[i] = 0.999f * second[i] + 0.001f * gradient * gradient;
        weight[i] -= rate * (first[i] / a) / (std::sqrt(second[i] / b) + 1e-8f);
      }
    }
  }
};

std::vector<std::uint16_t> to_bf16(const std::vector<float>& values) {
  std::vector<std::uint16_t> out;
  for (const float value : values)
    out.push_back(static_cast<std::uint16_t>((std::bit_cast<std::uint32_t>(value) + 0x8000u) >> 16));
  return out;
}

std::size_t zstd3(std::span<const std::byte> bytes) {
  std::vector<std::byte> out(ZSTD_compressBound(bytes.size()));
  return ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3);
}

struct Measured {
  double ratio = 0;  ///< raw over stored
  double zstd = 0;   ///< raw over zstd -3
};

/// `snapshots` snapshots `gap` steps apart; the first, which is whole, is not counted.
Measured measure(const char* name, float rate, int gap, bool half, bool moments) {
  constexpr int kSnapshots = 5;
  PowerFiles files;
  auto store = Store::open(files, "s", {StoreMode::create});
  GRAFT_CHECK(store.ok());
  Adam adam(std::size_t{1} << 17);
  adam.train(20, rate);
  double raw = 0, stored = 0, plain = 0, seconds = 0;
  for (int i = 0; i < kSnapshots; ++i) {
    adam.train(gap, rate);
    const auto small = to_bf16(adam.weight);
    std::vector<StreamInput> streams;
    if (half) {
      streams.push_back({"w", StreamKind::parameter, Element::bf16, std::as_bytes(std::span(small))});
    } else {
      streams.push_back({"w", StreamKind::parameter, Element::f32, std::as_bytes(std::span(adam.weight))});
    }
    if (moments) {
      streams.push_back({"m", StreamKind::optimizer, Element::f32, std::as_bytes(std::span(adam.first))});
      streams.push_back({"v", StreamKind::optimizer, Element::f32, std::as_bytes(std::span(adam.second))});
    }
    const os::Stopwatch watch;
    const auto report = store->put_snapshot(streams, {});
    GRAFT_CHECK(report.ok());
    if (i == 0) continue;
    seconds += watch.seconds();
    raw += static_cast<double>(report->raw_bytes);
    stored += static_cast<double>(report->stored_bytes);
    for (const auto& stream : streams) plain += static_cast<double>(zstd3(stream.bytes));
  }
  std::size_t codecs[5] = {};
  for (const Chunk& chunk : store->snapshots().at(store->head()).chunks) {
    if (chunk.segment == store->head()) ++codecs[static_cast<std::size_t>(chunk.codec)];
  }
  const os::Stopwatch watch;
  GRAFT_CHECK(store->restore(store->head(), "w", std::uint64_t{1} << 30).ok());
  const double restored = static_cast<double>(store->snapshots().at(store->head()).find("w")->bytes);
  std::printf(
      "%-34s %8.0f KiB raw  %8.0f KiB stored (%.2fx)  zstd -3 %8.0f KiB (%.2fx)  put %4.0f MB/s  restore %4.0f MB/s"
      "  plain/planes/delta/xor/sparse %zu/%zu/%zu/%zu/%zu\n",
      name, raw / 1024 / (kSnapshots - 1), stored / 1024 / (kSnapshots - 1), raw / stored,
      plain / 1024 / (kSnapshots - 1), raw / plain, raw / seconds * 1e-6, restored / watch.seconds() * 1e-6, codecs[0],
      codecs[1], codecs[2], codecs[3], codecs[4]);
  return {raw / stored, raw / plain};
}

TEST(CheckpointRatio, SnapshotsOfTrainingStateAreSmallerThanZstdMakesThem) {
  const std::vector<Measured> all = {
      measure("f32 w+m+v, lr 1e-3, 1 step", 1e-3f, 1, false, true),
      measure("f32 w+m+v, lr 1e-3, 10 steps", 1e-3f, 10, false, true),
      measure("f32 w+m+v, lr 1e-4, 1 step", 1e-4f, 1, false, true),
      measure("f32 w+m+v, lr 1e-4, 10 steps", 1e-4f, 10, false, true),
      measure("f32 w, lr 1e-4, 1 step", 1e-4f, 1, false, false),
      measure("f32 w, lr 1e-5, 1 step", 1e-5f, 1, false, false),
      measure("bf16 w, lr 1e-3, 1 step", 1e-3f, 1, true, false),
      measure("bf16 w, lr 1e-4, 1 step", 1e-4f, 1, true, false),
      measure("bf16 w, lr 1e-5, 1 step", 1e-5f, 1, true, false),
  };
  for (const Measured& one : all) EXPECT_GT(one.ratio, one.zstd * 1.05);
}

}  // namespace
}  // namespace graft::test::ratio_test

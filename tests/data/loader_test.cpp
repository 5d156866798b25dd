// Order, batches, cursors, prefetching and memory of the loader.
#include "runtime/data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <set>
#include <thread>

#include "platform/base/exceptions.h"
#include "runtime/data/random.h"
#include "tests/support/heap_count.h"

namespace graft::data::loader_test {
namespace {

std::vector<Field> number_field() { return {{"x", DType::i32, Shape{}, Role::feature}}; }

/// Samples are their own index.
std::unique_ptr<Source> numbers(std::uint64_t count, bool stream = false) {
  auto generate = [count](std::uint64_t index, SampleOut out) -> Result<bool> {
    if (index >= count) return false;
    const auto value = static_cast<std::int32_t>(index);
    std::memcpy(out[0], &value, 4);
    return true;
  };
  return from_generator(number_field(), generate, stream ? std::nullopt : std::optional(count)).value();
}

std::vector<int> values(const Batch& batch) {
  std::vector<int> out(batch.count());
  std::memcpy(out.data(), batch.field(0).data(), batch.field(0).size());
  return out;
}

struct Taken {
  std::vector<std::vector<int>> batches;
  std::vector<Cursor> after;
};

Taken take(Loader& loader, std::size_t count) {
  Taken run;
  for (std::size_t i = 0; i < count; ++i) {
    auto batch = loader.next();
    EXPECT_TRUE(batch.ok()) << batch.status().message();
    if (!batch.ok() || *batch == nullptr) break;
    run.batches.push_back(values(**batch));
    run.after.push_back(loader.cursor());
  }
  return run;
}

TEST(Permutation, IsOneForEverySize) {
  for (std::uint64_t n : {1u, 2u, 3u, 10u, 255u, 256u, 257u, 1000u, 60000u}) {
    const Permutation permutation(n, mix(7, n));
    std::vector<bool> seen(n, false);
    for (std::uint64_t i = 0; i < n; ++i) {
      const std::uint64_t p = permutation(i);
      ASSERT_LT(p, n);
      ASSERT_FALSE(seen[p]);
      seen[p] = true;
    }
  }
}

TEST(Permutation, PutsEveryElementEverywhere) {
  // 24,000 keys, 4 elements: each of 24 orders is expected 1,000 times with a standard deviation of 31; 5 of them allow
  // a failure by chance in fewer than one of 50,000 keysets, and the keys are fixed.
  std::vector<int> count(256, 0);
  for (std::uint64_t key = 0; key < 24000; ++key) {
    const Permutation p(4, mix(key));
    ++count[p(0) | p(1) << 2 | p(2) << 4 | p(3) << 6];
  }
  int orders = 0;
  for (const int c : count) {
    if (c == 0) continue;
    ++orders;
    EXPECT_NEAR(c, 1000, 155);
  }
  EXPECT_EQ(orders, 24);
}

TEST(Loader, GivesEachSampleOnceInEveryEpoch) {
  for (const bool stream : {false, true}) {
    for (const bool shuffle : {false, true}) {
      for (const std::uint64_t batch : {1u, 7u, 10u, 103u, 200u}) {
        auto source = numbers(103, stream);
        LoaderOptions options{.batch = batch, .shuffle = shuffle, .seed = 3, .shuffle_buffer = 16, .epochs = 3};
        auto loader = Loader::create(*source, options);
        ASSERT_TRUE(loader.ok()) << loader.status().message();
        std::vector<std::vector<int>> epochs(3);
        for (;;) {
          auto next = (*loader)->next();
          ASSERT_TRUE(next.ok()) << next.status().message();
          if (*next == nullptr) break;
          const Batch& b = **next;
          ASSERT_LT(b.epoch(), 3u);
          auto& epoch = epochs[b.epoch()];
          EXPECT_EQ(b.first(), epoch.size());
          for (const int v : values(b)) epoch.push_back(v);
          EXPECT_EQ(b.last_of_epoch(), epoch.size() == 103) << "stream " << stream << " batch " << batch;
        }
        for (auto epoch : epochs) {
          const bool in_order = std::is_sorted(epoch.begin(), epoch.end());
          EXPECT_EQ(in_order, !shuffle);
          std::sort(epoch.begin(), epoch.end());
          ASSERT_EQ(epoch.size(), 103u);
          for (int i = 0; i < 103; ++i) EXPECT_EQ(epoch[i], i);  // sample 0 too
        }
        if (shuffle) {
          EXPECT_NE(epochs[0], epochs[1]);
        }
      }
    }
  }
}

TEST(Loader, LeavesOutTheShortBatch) {
  for (const bool stream : {false, true}) {
    auto source = numbers(25, stream);
    LoaderOptions options{.batch = 10, .shuffle = false, .drop_last = true, .epochs = 2};
    auto loader = Loader::create(*source, options).value();
    const Taken run = take(*loader, 100);
    ASSERT_EQ(run.batches.size(), 4u);
    EXPECT_EQ(run.batches[2].front(), 0);
    for (const auto& batch : run.batches) EXPECT_EQ(batch.size(), 10u);
  }
}

TEST(Loader, GoesOnExactlyFromAnySavedCursor) {
  for (const bool stream : {false, true}) {
    for (const bool shuffle : {false, true}) {
      auto source = numbers(41, stream);
      LoaderOptions options{.batch = 6, .shuffle = shuffle, .seed = 11, .shuffle_buffer = 8};
      auto loader = Loader::create(*source, options).value();
      const Cursor begin = loader->cursor();
      const Taken whole = take(*loader, 20);
      ASSERT_EQ(whole.batches.size(), 20u);
      for (std::size_t at = 0; at < 15; ++at) {
        const auto bytes = serialize(at == 0 ? begin : whole.after[at - 1]);
        auto cursor = parse_cursor(bytes);
        ASSERT_TRUE(cursor.ok()) << cursor.status().message();
        auto other = numbers(41, stream);
        auto resumed = Loader::create(*other, options).value();
        ASSERT_TRUE(resumed->restore(*cursor).ok());
        const Taken rest = take(*resumed, 5);
        for (std::size_t i = 0; i < 5; ++i) {
          EXPECT_EQ(rest.batches[i], whole.batches[at + i]) << "stream " << stream << " at " << at;
          EXPECT_EQ(rest.after[i], whole.after[at + i]);
        }
      }
      // Backwards, in the same loader, while its thread is ahead.
      ASSERT_TRUE(loader->restore(whole.after[2]).ok());
      EXPECT_EQ(take(*loader, 1).batches[0], whole.batches[3]);
    }
  }
}

TEST(Loader, OrderDependsOnTheSeedAlone) {
  auto a = numbers(50), b = numbers(50), c = numbers(50);
  auto first = Loader::create(*a, {.batch = 50, .seed = 1}).value();
  auto same = Loader::create(*b, {.batch = 5, .seed = 1, .prefetch = 0}).value();
  auto other = Loader::create(*c, {.batch = 50, .seed = 2}).value();
  std::vector<int> joined;
  for (const auto& batch : take(*same, 10).batches) joined.insert(joined.end(), batch.begin(), batch.end());
  const auto order = take(*first, 1).batches[0];
  EXPECT_EQ(order, joined);
  EXPECT_NE(order, take(*other, 1).batches[0]);
}

TEST(Loader, RefusesCursorsOfOtherData) {
  auto small = numbers(10), large = numbers(11), stream = numbers(10, true);
  auto loader = Loader::create(*large, {.batch = 2, .seed = 1}).value();
  const Taken before = take(*loader, 1);
  auto of_small = Loader::create(*small, {.batch = 2, .seed = 1}).value();
  const Status size = loader->restore(of_small->cursor());
  EXPECT_EQ(size.message(), "The data cursor was saved on a data set of 10 samples, but this one has 11.");
  auto of_seed = Loader::create(*small, {.batch = 2, .seed = 9}).value();
  EXPECT_FALSE(of_small->restore(of_seed->cursor()).ok());
  auto of_stream = Loader::create(*stream, {.batch = 2, .seed = 1}).value();
  EXPECT_FALSE(of_small->restore(of_stream->cursor()).ok());
  auto wide = numbers(10, true);
  auto of_wide = Loader::create(*wide, {.batch = 2, .seed = 1, .shuffle_buffer = 5}).value();
  take(*of_wide, 1);
  auto narrow = numbers(10, true);
  auto of_narrow = Loader::create(*narrow, {.batch = 2, .seed = 1, .shuffle_buffer = 4}).value();
  EXPECT_FALSE(of_narrow->restore(of_wide->cursor()).ok());
  // The loader that refused goes on where it was.
  EXPECT_EQ(loader->cursor(), before.after[0]);
  EXPECT_EQ(take(*loader, 1).batches.size(), 1u);
}

TEST(Cursor, RefusesDamagedBytes) {
  Cursor cursor{.seed = 5, .shuffle = true, .epoch = 3, .position = 9, .stream_position = 20, .buffered = {4, 8, 15}};
  const auto bytes = serialize(cursor);
  EXPECT_EQ(parse_cursor(bytes).value(), cursor);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(parse_cursor(std::span(bytes).first(length)).ok());
  }
  auto version = bytes;
  version[0] = std::byte{2};
  EXPECT_FALSE(parse_cursor(version).ok());
  auto flag = bytes;
  flag[16] = std::byte{7};
  EXPECT_FALSE(parse_cursor(flag).ok());
}

TEST(Loader, CarriesErrorsFromTheThread) {
  for (const std::uint32_t prefetch : {0u, 1u, 3u}) {
    auto generate = [](std::uint64_t index, SampleOut out) -> Result<bool> {
      if (index == 25) return error(Code::io_error, "The disk is on fire.");
      std::memset(out[0], 0, 4);
      return true;
    };
    auto source = from_generator(number_field(), generate, 100).value();
    auto loader = Loader::create(*source, {.batch = 10, .shuffle = false, .prefetch = prefetch}).value();
    EXPECT_EQ(take(*loader, 2).batches.size(), 2u);
    for (int again = 0; again < 3; ++again) {
      const auto failed = loader->next();
      ASSERT_FALSE(failed.ok());
      EXPECT_EQ(failed.status().code(), Code::io_error);
      EXPECT_EQ(failed.status().message(), "While reading sample 25 of the data set: The disk is on fire.");
    }
  }
}

/// Samples that take more memory than there is.
class Huge final : public Source {
 public:
  const std::vector<Field>& fields() const override { return fields_; }
  std::optional<std::uint64_t> size() const override { return 8; }
  bool parallel() const override { return true; }
  Result<bool> read(std::uint64_t& position, SampleOut) override {
    if (position++ == 5) throw std::bad_alloc();
    return true;
  }

 private:
  std::vector<Field> fields_ = number_field();
};

TEST(Loader, AThreadWithoutMemoryIsAnError) {
  if (!kHasExceptions) GTEST_SKIP() << "This build has no exceptions.";
  Huge source;
  for (const std::uint32_t threads : {1u, 4u}) {
    for (const std::uint32_t prefetch : {1u, 2u}) {
      auto loader =
          Loader::create(source, {.batch = 8, .shuffle = false, .threads = threads, .prefetch = prefetch}).value();
      const auto batch = loader->next();
      EXPECT_EQ(batch.status().code(), Code::out_of_memory);
      EXPECT_NE(batch.status().message().find("of the data set: Host memory is used up."), std::string::npos)
          << batch.status().message();
    }
  }
}

TEST(Loader, PrefetchesNoFurtherThanAsked) {
  std::atomic<std::uint64_t> reads{0};
  auto generate = [&](std::uint64_t, SampleOut out) -> Result<bool> {
    std::memset(out[0], 0, 4);
    ++reads;
    return true;
  };
  auto source = from_generator(number_field(), generate, 1000).value();
  auto loader = Loader::create(*source, {.batch = 10, .prefetch = 2}).value();
  ASSERT_TRUE(loader->next().ok());
  // One batch is with the caller and two are ahead. Waiting longer must not change that.
  for (int i = 0; i < 200 && reads < 30; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_EQ(reads, 30u);
  loader.reset();  // stops at once, with batches that nobody took
  EXPECT_EQ(reads, 30u);
}

struct CountingAllocator {
  std::uint64_t live = 0;
  std::uint64_t peak = 0;
  HostAllocator get() {
    HostAllocator allocator;
    allocator.user = this;
    allocator.allocate = [](void* user, std::size_t bytes, std::size_t alignment) {
      auto& self = *static_cast<CountingAllocator*>(user);
      self.live += bytes;
      self.peak = std::max(self.peak, self.live);
      return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
    };
    allocator.release = [](void* user, void* block, std::size_t bytes, std::size_t) {
      static_cast<CountingAllocator*>(user)->live -= bytes;
      std::free(block);
    };
    return allocator;
  }
};

TEST(Loader, HoldsOnlyTheBatchesInFlight) {
  // 1 GiB of samples under a limit of 1 MiB: 3 batches of 64 samples of 4 KiB are 768 KiB.
  constexpr std::uint64_t kSamples = 1 << 18, kLimit = 1 << 20;
  auto generate = [](std::uint64_t index, SampleOut out) -> Result<bool> {
    std::memcpy(out[0], &index, sizeof index);  // the rest stays as it is: filling 1 GiB would only take time
    return true;
  };
  for (const bool stream : {false, true}) {
    CountingAllocator counter;
    auto source = from_generator({{"x", DType::f32, Shape{1024}, Role::feature}}, generate,
                                 stream ? std::nullopt : std::optional(kSamples))
                      .value();
    LoaderOptions options{.batch = 64, .shuffle_buffer = 32, .memory_limit = kLimit, .allocator = counter.get()};
    auto loader = Loader::create(*source, options);
    ASSERT_TRUE(loader.ok()) << loader.status().message();
    ASSERT_TRUE((*loader)->next().ok());
    const std::uint64_t before = test::heap_allocations();
    for (std::uint64_t samples = 64; samples < kSamples; samples += 64) ASSERT_TRUE((*loader)->next().ok());
    EXPECT_EQ(test::heap_allocations(), before) << "a batch was allocated on the heap";
    EXPECT_EQ(counter.peak, (*loader)->memory_bytes());
    EXPECT_LE(counter.peak, kLimit);
  }
}

TEST(Loader, SaysHowMuchMemoryItNeeds) {
  auto source = numbers(10000);
  const auto loader = Loader::create(*source, {.batch = 1024, .prefetch = 3, .memory_limit = 4096});
  ASSERT_FALSE(loader.ok());
  EXPECT_EQ(loader.status().code(), Code::out_of_memory);
  EXPECT_NE(loader.status().message().find("16"), std::string::npos) << loader.status().message();
  EXPECT_FALSE(Loader::create(*source, {.batch = 0}).ok());
  EXPECT_FALSE(Loader::create(*source, {.batch = ~0ull}).ok());
  auto few = numbers(3);
  EXPECT_FALSE(Loader::create(*few, {.batch = 4, .drop_last = true}).ok());
  auto empty = numbers(0, true);
  auto of_empty = Loader::create(*empty, {.batch = 4}).value();
  EXPECT_EQ(of_empty->next().status().message(), "The data stream holds no sample.");
}

TEST(Sources, SlicesMapsAndRanges) {
  const std::vector<float> x = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<std::int32_t> y = {10, 11, 12, 13};
  auto slices = from_slices({{"x", DType::f32, Shape{2}, Role::feature}, {"y", DType::i32, Shape{}, Role::label}},
                            {std::as_bytes(std::span(x)), std::as_bytes(std::span(y))}, 4)
                    .value();
  EXPECT_EQ(sample_bytes(*slices), 12u);
  auto sum = [](std::uint64_t position, std::span<const std::byte* const> in, SampleOut out) -> Status {
    float pair[2];
    std::memcpy(pair, in[0], 8);
    const float total = pair[0] + pair[1] + 100.0f * static_cast<float>(position);
    std::memcpy(out[0], &total, 4);
    std::memcpy(out[1], in[1], 4);
    return {};
  };
  auto mapped = map(std::move(slices),
                    {{"sum", DType::f32, Shape{}, Role::feature}, {"y", DType::i32, Shape{}, Role::label}}, sum)
                    .value();
  auto part = range(std::move(mapped), 1, 2).value();
  EXPECT_EQ(part->size(), 2u);
  {
    auto loader = Loader::create(*part, {.batch = 2, .shuffle = false}).value();
    const Batch& batch = **loader->next();
    float sums[2];
    std::int32_t labels[2];
    std::memcpy(sums, batch.field(0).data(), 8);
    std::memcpy(labels, batch.field(1).data(), 8);
    EXPECT_EQ(sums[0], 105.0f);
    EXPECT_EQ(sums[1], 209.0f);
    EXPECT_EQ(labels[0], 11);
    EXPECT_EQ(labels[1], 12);
  }  // the loader reads ahead in a thread of its own: it ends before its source does
  EXPECT_FALSE(range(std::move(part), 1, 2).ok());
  EXPECT_FALSE(from_slices(number_field(), {std::as_bytes(std::span(y))}, 5).ok());
  EXPECT_FALSE(check_fields(std::vector<Field>{{"x", DType::f32, Shape{Dim::symbol("n")}, Role::feature}}).ok());
}

}  // namespace
}  // namespace graft::data::loader_test

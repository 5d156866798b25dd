// An order of samples that follows from each of them: what leaving one out changes, shares of a mixture, cursors.
#include "runtime/data/keyed_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "runtime/data/loader.h"
#include "runtime/data/mix.h"

namespace graft::data::keyed_order_test {
namespace {

std::vector<Field> fields_of(const char* other = nullptr) {
  std::vector<Field> fields = {{"x", DType::i32, Shape{}, Role::feature}};
  if (other != nullptr) fields.insert(fields.begin(), {other, DType::f32, Shape{3}, Role::feature});
  return fields;
}

/// One sample for each number, in this order. `other`: a field in front that holds nothing of interest.
std::unique_ptr<Source> samples(std::vector<int> numbers, const char* other = nullptr) {
  const std::uint64_t count = numbers.size();
  auto generate = [numbers = std::move(numbers), other](std::uint64_t index, SampleOut out) -> Result<bool> {
    if (index >= numbers.size()) return false;
    if (other != nullptr) std::memset(out[0], 0, 12);
    std::memcpy(out[other != nullptr ? 1 : 0], &numbers[index], 4);
    return true;
  };
  return from_generator(fields_of(other), generate, count).value();
}

std::vector<int> range_of(int first, int count) {
  std::vector<int> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

LoaderOptions keyed(std::uint64_t batch, std::uint64_t epochs = 1) {
  LoaderOptions options;
  options.batch = batch;
  options.keyed = true;
  options.seed = 3;
  options.epochs = epochs;
  return options;
}

/// The numbers of each batch.
std::vector<std::vector<int>> batches_of(Source& source, const LoaderOptions& options) {
  auto loader = Loader::create(source, options);
  EXPECT_TRUE(loader.ok()) << loader.status().message();
  std::vector<std::vector<int>> out;
  for (;;) {
    auto batch = (*loader)->next();
    EXPECT_TRUE(batch.ok()) << batch.status().message();
    if (!batch.ok() || *batch == nullptr) return out;
    std::vector<int> numbers((*batch)->count());
    std::memcpy(numbers.data(), (*batch)->field(0).data(), (*batch)->field(0).size());
    out.push_back(std::move(numbers));
  }
}

std::vector<int> joined(const std::vector<std::vector<int>>& batches) {
  std::vector<int> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

std::vector<int> without(std::vector<int> numbers, int left_out) {
  std::erase(numbers, left_out);
  return numbers;
}

TEST(KeyedOrder, LeavingOneOutChangesNoOrderOfTheOthers) {
  const auto all = samples(range_of(0, 103));
  const std::vector<int> order = joined(batches_of(*all, keyed(7, 3)));
  ASSERT_EQ(order.size(), 309u);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.begin() + 103));
  EXPECT_NE(std::vector<int>(order.begin(), order.begin() + 103),
            std::vector<int>(order.begin() + 103, order.begin() + 206));
  for (const int left_out : {0, 50, 102}) {
    const auto others = samples(without(range_of(0, 103), left_out));
    EXPECT_EQ(joined(batches_of(*others, keyed(7, 3))), without(order, left_out)) << left_out;
  }
  // Nor does the order of the source.
  auto backwards = range_of(0, 103);
  std::ranges::reverse(backwards);
  EXPECT_EQ(joined(batches_of(*samples(backwards), keyed(7, 3))), order);
  // A permutation by numbers is not like that.
  LoaderOptions by_number = keyed(7);
  by_number.keyed = false;
  const std::vector<int> shuffled = joined(batches_of(*all, by_number));
  EXPECT_NE(joined(batches_of(*samples(without(range_of(0, 103), 50)), by_number)), without(shuffled, 50));
}

TEST(KeyedOrder, PutsEverySampleEverywhere) {
  // 600 seeds, 6 samples: each is first 100 times with a standard deviation of 9.1; five of them allow a failure by
  // chance in one of 200,000 sets of seeds, and the seeds are fixed.
  const std::vector<std::uint64_t> keys = {1, 2, 3, 4, 5, 6};
  std::vector<int> first(6, 0);
  for (std::uint64_t seed = 0; seed < 600; ++seed) ++first[keyed_order(keys, std::nullopt, seed, 0)[0]];
  for (const int count : first) EXPECT_NEAR(count, 100, 46);
}

TEST(KeyedOrder, AMixtureHasItsShareOfEveryBatch) {
  const auto news = samples(range_of(0, 60));
  const auto mixed = mix_in(*news, samples(range_of(1000, 300), "other"), 0.25);
  ASSERT_TRUE(mixed.ok()) << mixed.status().message();
  const auto batches = batches_of(**mixed, keyed(8, 2));
  const std::vector<int> order = joined(batches);
  EXPECT_EQ(places_of(360, (*mixed)->mixture()), 79u);  // 60 new ones, and no more after the last of them
  ASSERT_EQ(order.size(), 2 * 79u);
  for (const auto& batch : batches) {
    if (batch.size() < 8) continue;
    EXPECT_EQ(std::ranges::count_if(batch, [](int n) { return n >= 1000; }), 2);
  }
  // New ones come in the order that they have without a memory, and once.
  std::vector<int> new_ones = order;
  std::erase_if(new_ones, [](int n) { return n >= 1000; });
  EXPECT_EQ(new_ones, joined(batches_of(*news, keyed(8, 2))));
  // No record of the memory comes twice in an epoch, where it has enough of them.
  std::vector<int> old_ones(order.begin(), order.begin() + 79);
  std::erase_if(old_ones, [](int n) { return n < 1000; });
  EXPECT_EQ(old_ones.size(), 19u);
  std::ranges::sort(old_ones);
  EXPECT_EQ(std::ranges::adjacent_find(old_ones), old_ones.end());
}

TEST(KeyedOrder, LeavingARecordOutOfTheMemoryMovesNoNewSample) {
  for (const int records : {10, 300}) {  // each several times, or not all of them
    const auto news = samples(range_of(0, 60));
    const auto of = [&](std::vector<int> memory) {
      auto mixed = mix_in(*news, samples(std::move(memory)), 0.4);
      EXPECT_TRUE(mixed.ok());
      return joined(batches_of(**mixed, keyed(8)));
    };
    const std::vector<int> with = of(range_of(1000, records)), other = of(without(range_of(1000, records), 1004));
    ASSERT_EQ(with.size(), other.size());
    const auto first = std::ranges::find(with, 1004);
    for (std::size_t i = 0; i < with.size(); ++i) {
      EXPECT_EQ(with[i] >= 1000, other[i] >= 1000) << i;
      // Before the record would have come, nothing differs.
      const bool is_before = with.begin() + static_cast<std::ptrdiff_t>(i) < first;
      if (with[i] < 1000 || is_before) {
        EXPECT_EQ(with[i], other[i]) << i;
      }
    }
    EXPECT_EQ(std::ranges::count(other, 1004), 0);
    EXPECT_EQ(std::ranges::count(with, 1000) >= 3, records == 10);
  }
}

TEST(KeyedOrder, TheFirstBatchOfARecordIsFoundWithoutReadingBatches) {
  for (const bool drop_last : {false, true}) {
    const auto news = samples(range_of(0, 22));
    const auto mixed = mix_in(*news, samples(range_of(1000, 40)), 0.4);  // an epoch uses some of the 40
    ASSERT_TRUE(mixed.ok());
    LoaderOptions options = keyed(5, 4);
    options.drop_last = drop_last;
    const auto batches = batches_of(**mixed, options);
    const auto keys = keys_of(**mixed);
    ASSERT_TRUE(keys.ok());
    std::size_t never = 0;
    for (std::uint64_t row = 22; row < 62; ++row) {
      std::optional<std::uint64_t> wanted;
      for (std::size_t b = 0; b < batches.size() && !wanted; ++b) {
        if (std::ranges::count(batches[b], static_cast<int>(978 + row)) != 0) wanted = b;
      }
      never += wanted ? 0 : 1;
      const Batches made = {.seed = 3, .batch = 5, .drop_last = drop_last, .epochs = 4};
      EXPECT_EQ(first_batch_with((*keys)[row], *keys, (*mixed)->mixture(), made, 1000), wanted) << row;
      if (wanted) {
        EXPECT_EQ(first_batch_with((*keys)[row], *keys, (*mixed)->mixture(), made, *wanted), std::nullopt) << row;
      }
      // A new sample of that key is none of the memory's.
      EXPECT_EQ(first_batch_with((*keys)[row - 22], *keys, (*mixed)->mixture(), made, 1000).has_value(), false);
      if (row == 43) break;
    }
    EXPECT_LT(never, 22u);
  }
}

TEST(KeyedOrder, ARunGoesOnFromACursor) {
  const auto news = samples(range_of(0, 31));
  const auto mixed = mix_in(*news, samples(range_of(1000, 9)), 0.3);
  ASSERT_TRUE(mixed.ok());
  const auto batches = batches_of(**mixed, keyed(4, 3));
  auto loader = Loader::create(**mixed, keyed(4, 3));
  ASSERT_TRUE(loader.ok());
  for (std::size_t done = 0; done < batches.size(); ++done) {
    const auto cursor = parse_cursor(serialize((*loader)->cursor()));
    ASSERT_TRUE(cursor.ok()) << cursor.status().message();
    ASSERT_TRUE((*loader)->restore(*cursor).ok());
    auto batch = (*loader)->next();
    ASSERT_TRUE(batch.ok() && *batch != nullptr);
    std::vector<int> numbers((*batch)->count());
    std::memcpy(numbers.data(), (*batch)->field(0).data(), (*batch)->field(0).size());
    EXPECT_EQ(numbers, batches[done]) << done;
  }
  LoaderOptions shuffled = keyed(4, 3);
  shuffled.keyed = false;
  auto other = Loader::create(*news, shuffled);
  auto by_keys = Loader::create(*news, keyed(4));
  ASSERT_TRUE(other.ok() && by_keys.ok());
  EXPECT_EQ((*by_keys)->restore((*other)->cursor()).message(),
            "The data cursor was saved with seed 3, shuffled, but this run has seed 3, by keys.");
  std::vector<std::byte> bytes = serialize((*by_keys)->cursor());
  bytes[16] = std::byte{3};
  EXPECT_EQ(parse_cursor(bytes).status().message(), "A data cursor has the order number 3; 0 to 2 are known.");
}

TEST(KeyedOrder, RefusesWhatHasNone) {
  const auto news = samples(range_of(0, 5));
  LoaderOptions options = keyed(2);
  options.shuffle = false;
  EXPECT_EQ(Loader::create(*news, options).status().message(),
            "Samples are taken in their order or by keys, not both.");
  const auto stream = from_generator(
      fields_of(), [](std::uint64_t, SampleOut) -> Result<bool> { return false; }, std::nullopt);
  EXPECT_EQ(Loader::create(**stream, keyed(2)).status().message(),
            "A stream of samples has no order by keys: nobody knows how many there are.");
  const auto mixed = mix_in(*news, samples(range_of(9, 5)), 0.5);
  options = keyed(2);
  options.keyed = false;
  EXPECT_EQ(Loader::create(**mixed, options).status().message(),
            "A data set with a share of other samples mixed in has an order by keys alone.");
  EXPECT_EQ(mix_in(*news, samples(range_of(9, 5)), 1).status().message(),
            "The share of samples to mix in is 1; it must be above 0 and at most 0.95.");
  const auto wide = samples(range_of(0, 5), "other");
  EXPECT_EQ(mix_in(*wide, samples(range_of(9, 5)), 0.5).status().message(),
            "The samples to mix in have no field \"other\", which the data set has.");
  // drop_last counts the places of an epoch, not the samples of both.
  LoaderOptions whole = keyed(12);
  whole.drop_last = true;
  EXPECT_FALSE(Loader::create(**mixed, whole).ok());
  EXPECT_EQ((*Loader::create(**mixed, keyed(4)))->batches_per_epoch(), 3u);
}

}  // namespace
}  // namespace graft::data::keyed_order_test

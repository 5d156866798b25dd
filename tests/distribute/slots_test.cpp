// Slots: who takes how many, how they are sent and added up.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "platform/group/in_process.h"
#include "runtime/distribute/group_exchange.h"
#include "runtime/distribute/paces.h"
#include "tests/support/trainer_fixture.h"

namespace graft::distribute::slots_test {
namespace {

using test::shared_device;

class SlotsTest : public test::TrainerTest {};

/// Two workers, of which the second takes ten times as long for a slot: the sums, and who had how many slots last.
std::vector<std::pair<std::vector<float>, std::uint64_t>> take_at_two_paces(std::uint64_t steps) {
  constexpr std::uint64_t kSlots = 6;
  const auto ends = group::in_process(2);
  const std::unique_ptr<gpu::Device> devices[] = {test::test_device().value(), test::test_device().value()};
  std::vector<std::pair<std::vector<float>, std::uint64_t>> out(2);
  const auto work = [&](std::size_t rank) -> Status {
    GroupExchange exchange(*ends[rank], *devices[rank], {.overlap = true, .moves_shares = true});
    for (std::uint64_t i = 0; i < steps; ++i) {
      train::SlotExchange::Step step{.number = i, .samples = kSlots, .slots = kSlots, .gradient_bytes = 12};
      step.own_samples = 5;
      GRAFT_TRY(exchange.begin(step));
      const train::SlotRange own = exchange.share().of(kSlots);
      for (std::uint64_t slot = own.first; slot < own.first + own.count; ++slot) {
        std::this_thread::sleep_for(std::chrono::milliseconds(rank == 0 ? 2 : 20));
        const float of_slot = 1.0f / static_cast<float>(slot + 3);
        const std::vector<float> gradients(3, of_slot);
        const Capture::Entry entry{nullptr, std::as_bytes(std::span(gradients))};
        GRAFT_TRY(exchange.give(slot, {{}, {}, std::span(&entry, 1)}));
      }
      GRAFT_TRY_ASSIGN(const auto sums, exchange.end());
      out[rank].first.resize(3);
      std::memcpy(out[rank].first.data(), sums.gradients.data(), 12);
      out[rank].second = exchange.sections()[rank].slots;
      EXPECT_EQ(exchange.sections()[1 - rank].slots, kSlots - out[rank].second);
      EXPECT_EQ(exchange.sections()[1].step, i + 1);
      EXPECT_EQ(exchange.sections()[1].all_steps, i + 1);
      EXPECT_EQ(exchange.sections()[1].all_samples, 5 * (i + 1));
    }
    return ok_status();
  };
  Status second;
  std::thread other([&] { second = work(1); });
  const Status first = work(0);
  other.join();
  EXPECT_TRUE(first.ok() && second.ok()) << first.message() << second.message();
  return out;
}

TEST_F(SlotsTest, WhoeverIsSlowerGetsFewerSlots) {
  const auto even = take_at_two_paces(1), moved = take_at_two_paces(5);
  EXPECT_EQ(even[0].second, 3u);
  EXPECT_GE(moved[0].second, 5u);
  for (const auto& [sums, slots] : {even[1], moved[0], moved[1]}) EXPECT_EQ(sums, even[0].first);
}

TEST(Shares, FollowWhatASlotCosts) {
  const auto counts = [](std::vector<std::uint64_t> costs, std::uint64_t slots) {
    std::vector<std::uint64_t> all;
    train::Share share{0, costs.size(), costs};
    std::uint64_t next = 0;
    for (; share.rank < share.workers; ++share.rank) {
      EXPECT_EQ(share.of(slots).first, next);
      next += share.of(slots).count;
      all.push_back(share.of(slots).count);
    }
    EXPECT_EQ(next, slots);
    return all;
  };
  using Counts = std::vector<std::uint64_t>;
  EXPECT_EQ(counts({7, 7, 7}, 7), (Counts{3, 2, 2}));  // as where nothing is known
  EXPECT_EQ(counts({1, 2, 4}, 7), (Counts{4, 2, 1}));
  EXPECT_EQ(counts({9, 1}, 4), (Counts{0, 4}));
  EXPECT_EQ(counts({1, 1, 1}, 2), (Counts{1, 1, 0}));
}

/// A change of shares discards prefetched samples, so a gain of less than a tenth changes nothing.
TEST(Shares, StayWhereAStepGainsLessThanATenth) {
  Paces paces;
  const auto note = [&](std::uint64_t first, std::uint64_t second) {
    std::vector<train::WorkerSection> sections(2);
    for (train::WorkerSection& one : sections) one.slots = 10;
    sections[0].computing_ns = 10 * first;
    sections[1].computing_ns = 10 * second;
    paces.note(sections);
  };
  note(100, 900);  // the first step is not measured
  note(100, 115);  // 11 and 9 slots would take 1100 ns instead of 1150
  EXPECT_TRUE(paces.costs().empty());
  note(100, 401);
  EXPECT_EQ(paces.costs(), (std::vector<std::uint64_t>{100, 258}));
}

/// Numbers of all sizes, and those too small to be normal.
TEST_F(SlotsTest, SlotsAreAddedAsTheDeviceAdds) {
  constexpr std::size_t kCount = 5000;
  std::vector<std::vector<float>> slots(3, std::vector<float>(kCount));
  std::uint32_t bits = 12345;
  for (std::vector<float>& slot : slots) {
    for (float& x : slot) {
      bits = bits * 1664525 + 1013904223;
      x = std::ldexp(static_cast<float>(bits >> 8) / 0x1p24f - 0.5f, static_cast<int>(bits >> 5 & 127) - 149);
    }
  }
  std::vector<std::span<const std::byte>> views;
  for (const std::vector<float>& slot : slots) views.push_back(std::as_bytes(std::span(slot)));
  std::vector<std::vector<float>> sums(2, std::vector<float>(kCount));
  for (const auto where : {SlotSum::Where::by_trial, SlotSum::Where::device}) {
    const auto sum = SlotSum::create(*shared_device(), 64, where).value();
    EXPECT_TRUE(where == SlotSum::Where::by_trial || !sum->on_host());
    std::vector<float>& to = sums[where == SlotSum::Where::device ? 1 : 0];
    ASSERT_TRUE(sum->add(views, Wire::f32, std::as_writable_bytes(std::span(to))).ok());
  }
  EXPECT_EQ(std::memcmp(sums[0].data(), sums[1].data(), kCount * sizeof(float)), 0);
  std::size_t small = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const double wanted = double{slots[0][i]} + slots[1][i] + slots[2][i];
    EXPECT_NEAR(sums[0][i], wanted, 1e-6 * std::abs(wanted) + 0x1p-124) << i;
    small += std::abs(wanted) < 0x1p-126 ? 1 : 0;
  }
  EXPECT_GT(small, 20u);
}

/// The end of worker 0, on whose way one bit of a part from worker 1 changes.
class ChangesAPart final : public group::Group {
 public:
  ChangesAPart(group::Group& base, std::uint64_t call, std::size_t part) : base_(base), call_(call), part_(part) {}
  std::size_t rank() const override { return base_.rank(); }
  std::size_t size() const override { return base_.size(); }
  Status exchange(group::OutParts out, group::InParts in, std::chrono::nanoseconds deadline) override {
    GRAFT_TRY(base_.exchange(out, in, deadline));
    if (calls_++ == call_) in[part_ * size() + 1][0] ^= std::byte{1};
    return ok_status();
  }
  void leave(const Status& why) override { base_.leave(why); }

 private:
  group::Group& base_;
  std::uint64_t call_;
  std::size_t part_;
  std::uint64_t calls_ = 0;
};

/// Gradients come in the second exchange of a step, sums in the third.
TEST_F(SlotsTest, AChangedBitOfGradientsOrSumsIsNoticed) {
  const std::unique_ptr<gpu::Device> devices[] = {test::test_device().value(), test::test_device().value()};
  for (const auto& [call, part] : {std::pair(1, 0), std::pair(2, 1)}) {
    const auto ends = group::in_process(2);
    ChangesAPart first(*ends[0], call, part);
    const std::vector<float> gradients(3, 0.5f);
    const Capture::Entry entry{nullptr, std::as_bytes(std::span(gradients))};
    const auto work = [&](std::size_t rank) -> Status {
      GroupExchange exchange(rank == 0 ? static_cast<group::Group&>(first) : *ends[1], *devices[rank]);
      train::SlotExchange::Step step{.samples = 2, .slots = 2, .gradient_bytes = 12};
      GRAFT_TRY(exchange.begin(step));
      GRAFT_TRY(exchange.give(rank, {{}, {}, std::span(&entry, 1)}));
      Status ended = detail::to_status(exchange.end());
      exchange.leave(ended);
      return ended;
    };
    std::thread other([&] { static_cast<void>(work(1)); });
    const Status said = work(0);
    other.join();
    EXPECT_EQ(said.code(), Code::corrupt) << part;
    EXPECT_NE(said.message().find("What worker 1 sent to worker 0 was changed"), std::string::npos) << said.message();
  }
}

/// Addends and sums that are too small to be normal, as a device that flushes them to zero adds, and one that does not.
TEST(Slots, AreAddedOnTheHostWithAndWithoutSubnormalNumbers) {
  const std::array<float, 2> first = {0x1.8p-126f, 0x1p-127f}, second = {-0x1p-126f, 0x1p-127f};
  const std::array<std::span<const std::byte>, 2> slots = {std::as_bytes(std::span(first)),
                                                           std::as_bytes(std::span(second))};
  std::array<float, 2> sums = {};
  add_on_host(slots, Wire::f32, true, std::as_writable_bytes(std::span(sums)));
  EXPECT_EQ(sums, (std::array<float, 2>{0, 0}));
  add_on_host(slots, Wire::f32, false, std::as_writable_bytes(std::span(sums)));
  EXPECT_EQ(sums, (std::array<float, 2>{0x1p-127f, 0x1p-126f}));
}

/// The sums, this worker's part of what others send, and its own slots until they are sent.
TEST(Slots, TakeWhatIsSaidOfHostMemory) {
  // Three workers of six gradients, so two each: the sums, and two others' slots.
  EXPECT_EQ(host_bytes(24, 3, 1, 3), 24u + 2 * 8);
  // Two slots for each worker: it holds both whole, and a part of each of the six except those read on arrival.
  EXPECT_EQ(host_bytes(24, 3, 2, 6), 24u + 2 * 24 + 2 * 8 + 2 * 8 + 2 * 8);
  EXPECT_EQ(host_bytes(24, 1, 1, 1), 24u) << "one worker sends nothing";
}

TEST(Wire, RoundsToTheNearestAndKeepsWhatIsNoNumber) {
  const auto through = [](float x) {
    std::array<std::byte, 2> half = {};
    pack(std::as_bytes(std::span(&x, 1)), Wire::bf16, half);
    float y = 0;
    unpack(half, Wire::bf16, std::as_writable_bytes(std::span(&y, 1)));
    return y;
  };
  EXPECT_EQ(through(1.0f), 1.0f);
  EXPECT_EQ(through(-0.0f), 0.0f);
  EXPECT_TRUE(std::signbit(through(-0.0f)));
  EXPECT_EQ(through(1.00390625f), 1.0f);       // halfway: to the even one
  EXPECT_EQ(through(1.01171875f), 1.015625f);  // halfway: to the even one
  EXPECT_EQ(through(1.0040f), 1.0078125f);     // just above half
  EXPECT_TRUE(std::isinf(through(std::numeric_limits<float>::infinity())));
  EXPECT_TRUE(std::isnan(through(std::numeric_limits<float>::quiet_NaN())));
  EXPECT_TRUE(std::isnan(through(std::bit_cast<float>(0x7f800001u))));
}

}  // namespace
}  // namespace graft::distribute::slots_test

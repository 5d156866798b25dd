// The checks of finished plans, on plans written by hand: every other test of plans relies on what they find.
#include <gtest/gtest.h>

#include "runtime/plan/hazards.h"

namespace graft::plan_checks_test {
namespace {

constexpr std::uint64_t kSegment = 4096, kAlignment = 64;

PlanBinding bound(Space space, Access access, std::uint32_t value, std::uint64_t offset, std::uint64_t size) {
  return {space, access, value, offset, size};
}
PlanBinding read(std::uint32_t value, std::uint64_t offset, std::uint64_t size) {
  return bound(Space::transient, Access::read, value, offset, size);
}
PlanBinding write(std::uint32_t value, std::uint64_t offset, std::uint64_t size) {
  return bound(Space::transient, Access::write, value, offset, size);
}

/// Dispatches that touch these bytes, each behind a barrier.
Plan plan_of(const std::vector<std::vector<PlanBinding>>& steps) {
  Plan plan;
  plan.segment_bytes = kSegment;
  plan.alignment = kAlignment;
  plan.resident_bytes = plan.transient_bytes = plan.upload_bytes = plan.readback_bytes = 2 * kSegment;
  plan.stream_bytes = 2 * kSegment;
  for (const auto& bindings : steps) {
    Step step;
    step.barrier_before = true;
    step.bindings = bindings;
    plan.steps.push_back(step);
  }
  for (std::uint32_t v = 0; v < 4; ++v) {  // whose lifetimes and memory do not matter where they do not overlap
    PlanValue value;
    value.value = value.root = value.storage = v;
    value.name = "v" + std::to_string(v);
    value.space = Space::transient;
    value.offset = v * 512;
    value.bytes = 512;
    plan.values.push_back(value);
  }
  return plan;
}

bool hazard(std::vector<PlanBinding> first, std::vector<PlanBinding> second, bool barrier = false) {
  Plan plan = plan_of({std::move(first), std::move(second)});
  plan.steps[1].barrier_before = barrier;
  return !check_hazards(plan).ok();
}

TEST(PlanCheckers, BytesOfWhichOneIsWrittenNeedABarrier) {
  EXPECT_TRUE(hazard({write(0, 0, 64)}, {read(0, 0, 64)}));
  EXPECT_FALSE(hazard({write(0, 0, 64)}, {read(0, 0, 64)}, true));
  EXPECT_TRUE(hazard({read(0, 0, 64)}, {write(0, 0, 64)}));
  EXPECT_TRUE(hazard({write(0, 0, 64)}, {write(0, 0, 64)}));
  EXPECT_FALSE(hazard({read(0, 0, 64)}, {read(0, 0, 64)}));
  // Neighbours share no byte; one byte is enough, on either side.
  EXPECT_FALSE(hazard({write(0, 64, 64)}, {read(1, 128, 64)}));
  EXPECT_FALSE(hazard({write(0, 64, 64)}, {read(1, 0, 64)}));
  EXPECT_TRUE(hazard({write(0, 64, 65)}, {read(1, 128, 64)}));
  EXPECT_TRUE(hazard({write(0, 64, 64)}, {read(1, 0, 65)}));
  EXPECT_FALSE(hazard({write(0, 0, 64)}, {bound(Space::resident, Access::read, 0, 0, 64)}));
  EXPECT_FALSE(hazard({write(0, 0, 64), read(0, 0, 64)}, {read(1, 64, 64)})) << "within one step";
  // What a step has bound counts, not only what it touches there.
  Plan plan = plan_of({{write(0, 0, 64)}, {read(1, 256, 64)}});
  plan.steps[1].barrier_before = false;
  EXPECT_TRUE(check_hazards(plan).ok());
  plan.steps[1].windows = {read(1, 0, 320)};
  EXPECT_FALSE(check_hazards(plan).ok());
}

TEST(PlanCheckers, ValuesThatAreAliveTogetherShareNoByte) {
  struct Life {
    std::uint64_t offset;
    std::uint32_t first, last, storage;
  };
  const auto clash = [](Life a, Life b, Space space = Space::transient) {
    Plan plan = plan_of({});
    plan.values.resize(2);
    for (int i = 0; i < 2; ++i) {
      const Life& life = i == 0 ? a : b;
      PlanValue& value = plan.values[static_cast<std::size_t>(i)];
      value.space = space;
      value.offset = life.offset;
      value.bytes = 128;
      value.first = life.first;
      value.last = life.last;
      value.storage = life.storage;
    }
    return !check_memory(plan).ok();
  };
  EXPECT_TRUE(clash({0, 0, 5, 0}, {0, 3, 8, 1}));
  EXPECT_TRUE(clash({0, 0, 5, 0}, {64, 3, 8, 1}));
  EXPECT_FALSE(clash({0, 0, 5, 0}, {128, 3, 8, 1})) << "neighbours";
  EXPECT_FALSE(clash({0, 0, 2, 0}, {0, 3, 8, 1})) << "one after the other";
  EXPECT_TRUE(clash({0, 0, 3, 0}, {0, 3, 8, 1})) << "both at 3";
  EXPECT_TRUE(clash({0, 3, 8, 0}, {0, 0, 3, 1})) << "both at 3";
  EXPECT_FALSE(clash({0, 0, 3, 7}, {0, 3, 8, 7})) << "a result over its operand";
  EXPECT_TRUE(clash({0, 0, 4, 7}, {0, 3, 8, 7})) << "which is read once more";
  EXPECT_TRUE(clash({0, 0, 3, 7}, {0, 3, 8, 7}, Space::resident)) << "nothing is made in the place of a resident";
}

TEST(PlanCheckers, WhatIsReadWasWrittenLastAsThatValue) {
  const auto fits = [](const std::vector<std::vector<PlanBinding>>& steps) {
    return check_memory(plan_of(steps)).ok();
  };
  EXPECT_FALSE(fits({{read(0, 0, 64)}})) << "nothing was written";
  EXPECT_FALSE(fits({{write(0, 64, 64)}, {read(0, 0, 64)}})) << "nothing below";
  EXPECT_TRUE(fits({{write(0, 64, 64)}, {read(0, 64, 64)}}));
  EXPECT_TRUE(fits({{write(0, 0, 64), write(0, 64, 64)}, {read(0, 0, 128)}})) << "in two pieces";
  EXPECT_FALSE(fits({{write(0, 0, 64), write(0, 128, 64)}, {read(0, 0, 192)}})) << "a gap";
  EXPECT_FALSE(fits({{write(0, 0, 64)}, {read(0, 0, 128)}})) << "half of it";
  EXPECT_FALSE(fits({{write(0, 0, 192)}, {write(1, 64, 64)}, {read(0, 0, 192)}})) << "overwritten in its middle";
  EXPECT_TRUE(fits({{write(0, 0, 192)}, {write(1, 64, 64)}, {read(0, 0, 64), read(1, 64, 64), read(0, 128, 64)}}));
  EXPECT_TRUE(fits({{write(0, 0, 64)}, {write(1, 0, 64)}, {read(1, 0, 64)}}));
  EXPECT_FALSE(fits({{write(0, 0, 64)}, {write(1, 0, 64)}, {read(0, 0, 64)}}));
  EXPECT_FALSE(fits({{write(0, 0, 64), read(0, 0, 64)}})) << "a step reads before it writes";
  // A view is read as what it is a view of, and scratch is its node's alone.
  Plan plan = plan_of({{write(0, 0, 64)}, {read(1, 0, 64)}});
  plan.values[1].root = 0;
  EXPECT_TRUE(check_memory(plan).ok());
  const auto scratch = [](Access access, std::uint32_t node) {
    PlanBinding b = bound(Space::transient, access, kNoIndex, 0, 64);
    b.scratch_of = node;
    return b;
  };
  EXPECT_TRUE(fits({{scratch(Access::write, 3)}, {scratch(Access::read, 3)}}));
  EXPECT_FALSE(fits({{scratch(Access::write, 3)}, {scratch(Access::read, 4)}}));
}

TEST(PlanCheckers, BytesLieWithinTheirSpaceAndSegment) {
  const auto lies = [](Space space, std::uint64_t offset, std::uint64_t size) {
    return check_memory(plan_of({{bound(space, Access::write, 0, offset, size)}})).ok();
  };
  for (const Space space : {Space::resident, Space::transient}) {
    EXPECT_TRUE(lies(space, kSegment, kSegment)) << "to the very end";
    EXPECT_FALSE(lies(space, kSegment, kSegment + 1));
    EXPECT_FALSE(lies(space, 2 * kSegment, 4));
    EXPECT_FALSE(lies(space, 0, 0)) << "nothing";
    EXPECT_TRUE(lies(space, kSegment - kAlignment, kAlignment)) << "to the end of a segment";
    EXPECT_FALSE(lies(space, kSegment - kAlignment, kAlignment + 1)) << "into the next";
    EXPECT_FALSE(lies(space, 4, 4)) << "not aligned";
  }
  EXPECT_TRUE(lies(Space::upload, kSegment - 4, 8)) << "staging has no segments";
  EXPECT_FALSE(lies(Space::upload, 2 * kSegment - 4, 8));
}

/// A refill before the second of three steps, each of which reads 64 bytes of the ring or its staging.
Plan refilled(std::uint64_t offset, std::uint32_t after, bool staged) {
  const Space space = staged ? Space::stream_staging : Space::stream;
  const auto part = [&](std::uint32_t value, std::uint64_t at) { return bound(space, Access::read, value, at, 64); };
  Plan plan = plan_of({{part(0, 0)}, {part(1, offset)}, {part(1, offset)}});
  plan.stream_staging_bytes = staged ? 2 * kSegment : 0;
  for (PlanValue& value : plan.values) value.space = Space::stream;
  const auto refill = [&](std::uint32_t value, std::uint64_t at, std::uint32_t before, std::uint32_t behind) {
    Refill r;
    r.value = value;
    r.bytes = 64;
    (staged ? r.staging : r.offset) = at;
    r.first_step = before;
    r.after_step = behind;
    return r;
  };
  plan.refills = {refill(0, 0, 0, 0), refill(1, offset, 1, after)};
  return plan;
}

TEST(PlanCheckers, RefillsComeInTimeAndNotTooEarly) {
  for (const bool staged : {false, true}) {
    SCOPED_TRACE(staged);
    EXPECT_TRUE(check_memory(refilled(64, 0, staged)).ok()) << "beside what the first step reads";
    EXPECT_FALSE(check_memory(refilled(0, 0, staged)).ok()) << "while the first step may read what was there";
    EXPECT_TRUE(check_memory(refilled(0, 1, staged)).ok()) << "after it";
    Plan plan = refilled(64, 0, staged);
    plan.steps[2].bindings[0].offset = 0;
    EXPECT_FALSE(check_memory(plan).ok()) << "the first value is there";
    plan = refilled(0, 1, staged);
    plan.steps[2].bindings[0].value = 0;
    EXPECT_FALSE(check_memory(plan).ok()) << "the first value is gone";
    plan = refilled(64, 0, staged);
    plan.refills[1].first_step = 3;
    EXPECT_FALSE(check_memory(plan).ok()) << "before no step";
  }
}

}  // namespace
}  // namespace graft::plan_checks_test

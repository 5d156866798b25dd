// ctest: slow
// Device memory that shrinks while training runs: a new plan between two steps, and no step lost.
#include <gtest/gtest.h>

#include "platform/null/null_device.h"
#include "tests/support/edited_device.h"
#include "tests/support/trainer_fixture.h"

namespace graft::train::trim_test {
namespace {

using namespace test;

constexpr std::uint64_t kBatch = 8;

class Trim : public TrainerTest {
 protected:
  Trim() {
    options_.batch = kBatch;
    options_.micro_batch = kBatch;  // another one would add up in another order
  }

  TrainerOptions trainer_options(std::uint64_t budget = 0) const {
    TrainerOptions out;
    out.request.samples = data_.samples;
    out.request.evaluation = false;
    out.request.checkpoints = true;
    out.request.plan.budget = budget;
    return out;
  }

  std::unique_ptr<Trainer> make_on(gpu::Device& device) {
    auto made = Trainer::create(device, model_.graph, model_.weight_of(), options_, data_.fields, trainer_options());
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? std::move(made).value() : nullptr;
  }

  std::uint64_t smallest(const gpu::Target& target) const {
    const auto none = plan_training(model_.graph, options_, trainer_options(1).request, target);
    const std::string message = none.ok() ? "" : none.status().message();
    const std::size_t at = message.find("works is ");
    EXPECT_NE(at, std::string::npos) << message;
    return at == std::string::npos ? 0 : std::stoull(message.substr(at + 9));
  }

  /// `count` steps from where the trainer is.
  void go_on(Trainer& trainer, std::uint64_t count) const {
    const auto source = data_.source();
    auto loader = data::Loader::create(*source, {.batch = kBatch, .shuffle = false}).value();
    if (trainer.state().step != 0) {
      ASSERT_TRUE(loader->restore(trainer.state().cursor).ok());
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto result = trainer.train_step(**loader->next());
      ASSERT_TRUE(result.ok()) << result.status().message();
    }
  }

  TinyModel model_ = tiny_cnn(3, 0.2);
  TinyData data_ = tiny_data(24, {1, 8, 8}, 3);
  TrainOptions options_;
};

TEST_F(Trim, ARunGoesOnWithTheSameBitsInLessMemory) {
  const auto free = make_on(*shared_device());
  go_on(*free, 9);
  const auto trainer = make_on(*shared_device());
  go_on(*trainer, 3);
  const std::uint64_t before = trainer->device_bytes();
  const std::uint64_t least = smallest(shared_device()->target());
  ASSERT_LT(least, before);
  const Status trimmed = trainer->trim(before - least);
  ASSERT_TRUE(trimmed.ok()) << trimmed.message();
  EXPECT_LE(trainer->device_bytes(), least);
  EXPECT_EQ(trainer->device_bytes(), trainer->plan().memory().total()) << "planned equals measured";
  go_on(*trainer, 3);
  ASSERT_TRUE(trainer->set_budget(0).ok());
  EXPECT_EQ(trainer->device_bytes(), before) << "and back";
  go_on(*trainer, 3);
  EXPECT_EQ(trainer->state().step, 9u);
  EXPECT_TRUE(contents_of(*trainer) == contents_of(*free));
}

TEST_F(Trim, WhatCannotBeChangesNothing) {
  const auto trainer = make_on(*shared_device());
  go_on(*trainer, 2);
  const Contents before = contents_of(*trainer);
  const std::uint64_t bytes = trainer->device_bytes();
  const Status tight = trainer->set_budget(smallest(shared_device()->target()) - 1);
  EXPECT_EQ(tight.code(), Code::out_of_memory);
  EXPECT_NE(tight.message().find("smallest budget that works"), std::string::npos) << tight.message();
  EXPECT_EQ(trainer->trim(bytes).code(), Code::out_of_memory);
  EXPECT_EQ(trainer->device_bytes(), bytes);
  EXPECT_TRUE(contents_of(*trainer) == before);
  go_on(*trainer, 1);
}

TEST_F(Trim, AStepThatIsHalfDoneIsEndedFirst) {
  options_.micro_batch = kBatch / 2;
  const auto trainer = make_on(*shared_device());
  const auto source = data_.source();
  auto loader = data::Loader::create(*source, {.batch = kBatch, .shuffle = false}).value();
  const data::Batch* batch = *loader->next();
  ASSERT_FALSE(trainer->micro_step(*batch)->has_value());
  EXPECT_EQ(trainer->trim(1).code(), Code::invalid_argument);
  ASSERT_TRUE(trainer->micro_step(*batch)->has_value());
}

TEST_F(Trim, ADeviceWithLessMemoryThanPlannedGetsASmallerPlan) {
  const auto free = make_on(*shared_device());
  go_on(*free, 4);
  const std::uint64_t whole = free->device_bytes();
  EditedDevice small(*shared_device());
  small.limit_bytes(shared_device()->memory().bytes + whole - 1);
  const auto trainer = make_on(small);
  ASSERT_NE(trainer, nullptr);
  EXPECT_LT(trainer->device_bytes(), whole);
  ASSERT_FALSE(trainer->plan().choice.reasons.empty());
  EXPECT_NE(trainer->plan().choice.reasons[0].find("had not the"), std::string::npos);
  go_on(*trainer, 4);
  EXPECT_TRUE(contents_of(*trainer) == contents_of(*free));
}

TEST_F(Trim, AHeapThatShrinksGetsASmallerPlanBeforeTheNextStep) {
  const auto free = make_on(*shared_device());
  go_on(*free, 7);
  const std::uint64_t others = shared_device()->memory().bytes;
  EditedDevice device(*shared_device());
  const auto trainer = make_on(device);
  const std::uint64_t whole = trainer->device_bytes();
  device.allow_bytes(others + 2 * whole);
  go_on(*trainer, 2);
  EXPECT_EQ(trainer->shortages(), 0u);
  const std::uint64_t least = smallest(device.target());
  ASSERT_LT(least, whole);
  const std::uint64_t allowed = (whole + least) / 2;
  device.allow_bytes(others + allowed);
  go_on(*trainer, 2);
  EXPECT_LT(trainer->device_bytes(), allowed);
  EXPECT_EQ(trainer->device_bytes(), trainer->plan().memory().total()) << "planned equals measured";
  EXPECT_NE(trainer->plan().choice.reasons.at(0).find("The device had not the"), std::string::npos);
  EXPECT_FALSE(trainer->heap_overdrawn());
  const std::uint64_t shortages = trainer->shortages();
  EXPECT_GE(shortages, 1u);
  go_on(*trainer, 3);
  EXPECT_EQ(trainer->shortages(), shortages) << "as long as that suffices";
  EXPECT_TRUE(contents_of(*trainer) == contents_of(*free));
}

TEST_F(Trim, AHeapThatShrinksBelowEveryPlanIsToldAndTrainingGoesOn) {
  const auto free = make_on(*shared_device());
  go_on(*free, 24);
  EditedDevice device(*shared_device());
  std::vector<std::string> told;
  TrainerOptions out = trainer_options();
  const auto note = [](void* user, LogLevel, std::string_view text) {
    static_cast<std::vector<std::string>*>(user)->emplace_back(text);
  };
  out.log = {note, &told, LogLevel::warning};
  const auto trainer =
      std::move(Trainer::create(device, model_.graph, model_.weight_of(), options_, data_.fields, out)).value();
  const std::uint64_t whole = trainer->device_bytes();
  device.set_available(0);
  int steps = 0;
  for (; steps < 20 && !trainer->heap_overdrawn(); ++steps) go_on(*trainer, 1);
  ASSERT_TRUE(trainer->heap_overdrawn());
  EXPECT_LT(trainer->device_bytes(), whole) << "what can be given is";
  ASSERT_EQ(told.size(), trainer->shortages() + 1);
  EXPECT_NE(told.back().find("no plan is smaller"), std::string::npos) << told.back();
  go_on(*trainer, 2);
  EXPECT_EQ(told.size(), trainer->shortages() + 1) << "once";
  device.set_available(1);
  go_on(*trainer, 24 - 2 - static_cast<std::uint64_t>(steps));
  EXPECT_FALSE(trainer->heap_overdrawn());
  EXPECT_TRUE(contents_of(*trainer) == contents_of(*free));
}

TEST_F(Trim, AHeapThatShrinksWithinAStepWaitsForItsEnd) {
  options_.micro_batch = kBatch / 2;
  EditedDevice device(*shared_device());
  const auto trainer = make_on(device);
  const std::uint64_t whole = trainer->device_bytes();
  const auto source = data_.source();
  auto loader = data::Loader::create(*source, {.batch = kBatch, .shuffle = false}).value();
  const data::Batch* batch = *loader->next();
  ASSERT_FALSE(trainer->micro_step(*batch)->has_value());
  device.set_available(0);
  ASSERT_TRUE(trainer->micro_step(*batch)->has_value());
  EXPECT_EQ(trainer->device_bytes(), whole);
  go_on(*trainer, 1);
  EXPECT_LT(trainer->device_bytes(), whole);
}

TEST_F(Trim, TheStateOutlivesADeviceThatRefusesAll) {
  const auto free = make_on(*shared_device());
  go_on(*free, 5);
  EditedDevice device(*shared_device());
  const auto trainer = make_on(device);
  go_on(*trainer, 2);
  device.limit_bytes(0);
  EXPECT_EQ(trainer->set_budget(trainer->device_bytes() - 1).code(), Code::out_of_memory);
  EXPECT_EQ(trainer->device_bytes(), 0u);
  std::vector<std::byte> bytes(4);
  EXPECT_EQ(trainer->read("any", bytes).code(), Code::out_of_memory);
  const auto source = data_.source();
  auto loader = data::Loader::create(*source, {.batch = kBatch, .shuffle = false}).value();
  EXPECT_EQ(trainer->train_step(**loader->next()).status().code(), Code::out_of_memory);
  device.limit_bytes(~std::uint64_t{0});
  const Status again = trainer->set_budget(0);
  ASSERT_TRUE(again.ok()) << again.message();
  go_on(*trainer, 3);
  EXPECT_TRUE(contents_of(*trainer) == contents_of(*free));
}

/// Calls of the device fail in turn, the early ones (allocations among them) one by one.
TEST_F(Trim, AnyFailureOnTheWayLeavesATrainerThatCanGoOn) {
  for (const Code code : {Code::out_of_memory, Code::device_error}) {
    int failures = 0;
    for (std::uint64_t call = 1;; call += 1 + call / 4) {
      null::NullDevice device({});
      std::uint64_t calls = 0;
      {
        const auto trainer = make_on(device);
        ASSERT_NE(trainer, nullptr);
        const std::uint64_t least = smallest(device.target());
        calls = device.calls();
        device.fail_call(call, code);
        const Status status = trainer->set_budget(least);
        calls = device.calls() - calls;
        device.fail_call(0);
        if (!status.ok()) {
          ++failures;
          EXPECT_EQ(status.code(), code) << status.message();
          ASSERT_TRUE(trainer->set_budget(0).ok()) << "call " << call;
        }
        EXPECT_EQ(trainer->device_bytes(), trainer->plan().memory().total()) << "call " << call;
      }
      EXPECT_EQ(device.live_objects(), 0u) << "call " << call;
      if (calls < call) break;
    }
    EXPECT_GE(failures, 3);
  }
}

}  // namespace
}  // namespace graft::train::trim_test

// ctest: slow (a step is repeated for every call that can fail)
// A device that runs out of memory in the middle of training: no step is lost, and the bits are the same.
#include <gtest/gtest.h>

#include "platform/null/null_device.h"
#include "runtime/self_test/self_test.h"
#include "tests/support/edited_device.h"
#include "tests/support/trainer_fixture.h"

namespace graft::train::shortage_test {
namespace {

using namespace test;

constexpr std::uint64_t kBatch = 8;

/// Told by Trainer's log.
struct Told {
  std::vector<std::string> messages;
  LogSink sink() {
    return {[](void* user, LogLevel, std::string_view text) { static_cast<Told*>(user)->messages.emplace_back(text); },
            this, LogLevel::warning};
  }
};

class Shortage : public TrainerTest {
 protected:
  Shortage() {
    options_.batch = kBatch;
    options_.fetch = {"y"};
    options_.clip_norm = 1;
  }

  std::unique_ptr<Trainer> make_on(gpu::Device& device, LogSink log = {}, KernelProof* proof = nullptr) {
    TrainerOptions out;
    out.program.proof = proof;
    out.request.evaluation = false;
    out.request.checkpoints = true;
    out.log = log;
    auto made = Trainer::create(device, model_.graph, model_.weight_of(), options_, data_.fields, out);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? std::move(made).value() : nullptr;
  }

  std::unique_ptr<data::Loader> loader_at(const Trainer& trainer) {
    if (!source_) source_ = data_.source();
    auto loader = data::Loader::create(*source_, {.batch = kBatch, .shuffle = false}).value();
    if (trainer.state().step != 0) {
      EXPECT_TRUE(loader->restore(trainer.state().cursor).ok());
    }
    return loader;
  }

  Result<StepResult> step(Trainer& trainer) {
    const auto loader = loader_at(trainer);
    return trainer.train_step(**loader->next());
  }

  /// Of 12 samples: a whole batch and one of 4, whose plan is made when it comes.
  void check_every_call(std::uint64_t in_a_row, std::uint64_t stride);

  TinyModel model_ = tiny_cnn(3, 0.2);
  TinyData data_ = tiny_data(12, {1, 8, 8}, 3);
  std::unique_ptr<data::Source> source_;
  TrainOptions options_;
};

void Shortage::check_every_call(std::uint64_t in_a_row, std::uint64_t stride) {
  EditedDevice free_device(*shared_device());
  free_device.edit().quirks.max_submit_dispatches =
      6;  // many submissions, so that some fail half way through the update
  const auto free = make_on(free_device);
  std::vector<Contents> expected;
  std::vector<std::uint64_t> calls;
  for (int i = 0; i < 2; ++i) {
    const std::uint64_t before = free_device.calls();
    ASSERT_TRUE(step(*free).ok());
    calls.push_back(free_device.calls() - before);
    expected.push_back(contents_of(*free));
  }
  const std::vector<std::byte> fetched(free->fetch("y")->bytes.begin(), free->fetch("y")->bytes.end());
  ASSERT_GE(calls[0], 8u) << "submissions and waits";
  EditedDevice device(*shared_device());
  device.edit().quirks.max_submit_dispatches = 6;
  const auto trainer = make_on(device);
  const std::uint64_t whole = trainer->device_bytes();
  const TrainingState start = trainer->state();
  const Contents initial = contents_of(*make_on(*shared_device()));
  std::uint64_t reached = 0;
  for (std::uint64_t call = 1; call <= calls[0] + calls[1]; call += stride) {
    // From the start again, and now and then with all the memory.
    device.counting(false);
    if (in_a_row > 1 || call % 3 == 0) {
      ASSERT_TRUE(trainer->set_budget(0).ok()) << call;
    }
    trainer->state() = start;
    for (const auto& [name, contents] : initial) {
      ASSERT_TRUE(trainer->write(name, std::as_bytes(std::span(contents))).ok()) << name;
    }
    const std::uint64_t refused = device.refused();
    const std::uint64_t shortages = trainer->shortages();
    device.counting(true);
    device.refuse_call(call, in_a_row);
    for (int i = 0; i < 2; ++i) {
      const auto result = step(*trainer);
      ASSERT_TRUE(result.ok()) << "call " << call << ": " << result.status().message();
      device.counting(false);
      ASSERT_TRUE(contents_of(*trainer) == expected[static_cast<std::size_t>(i)]) << "call " << call << " step " << i;
      device.counting(true);
    }
    const auto last = trainer->fetch("y");
    ASSERT_TRUE(last.ok() && std::equal(fetched.begin(), fetched.end(), last->bytes.begin(), last->bytes.end()))
        << call;
    if (device.refused() == refused) continue;  // the short batch's program was there already
    ++reached;
    EXPECT_EQ(device.refused() - refused, in_a_row) << call;
    EXPECT_EQ(trainer->device_bytes(), trainer->plan().memory().total()) << "planned equals measured, call " << call;
    if (trainer->shortages() == shortages) {
      // Only the last step's update, which was ended as it was, leaves its new plan to the next step.
      ASSERT_TRUE(step(*trainer).ok());
    }
    EXPECT_LT(trainer->device_bytes(), whole) << call;
  }
  EXPECT_GE(reached, calls[0] / stride);
  EXPECT_GE(trainer->shortages(), reached / 3) << "at least the first after each return to all the memory";
}

TEST_F(Shortage, EveryCallOfAStepMayRunOutOfMemory) {
  options_.micro_batch = kBatch;
  check_every_call(1, 1);
}

TEST_F(Shortage, AndTheCallsOfTheAnswerToIt) {
  options_.micro_batch = 4;
  check_every_call(2, 5);
}

TEST_F(Shortage, TheNewPlanIsForLessAndSaysSo) {
  Told told;
  EditedDevice device(*shared_device());
  const auto trainer = make_on(device, told.sink());
  ASSERT_TRUE(step(*trainer).ok());
  const std::uint64_t whole = trainer->device_bytes();
  device.refuse_call(1);
  ASSERT_TRUE(step(*trainer).ok());
  EXPECT_LE(trainer->device_bytes(), whole - whole / 512);
  EXPECT_EQ(trainer->shortages(), 1u);
  ASSERT_EQ(told.messages.size(), 1u);
  EXPECT_NE(told.messages[0].find("In step 1 the device ran out of memory"), std::string::npos) << told.messages[0];
  EXPECT_NE(trainer->plan().choice.reasons.at(0).find("had not the"), std::string::npos);
}

// Before the trainer holds anything, what the device says is there is all that a plan may take; without its word the
// first smaller plan would be for seven eighths.
TEST_F(Shortage, ATrainerIsMadeForWhatTheDeviceSaysItHas) {
  const std::uint64_t whole = make_on(*shared_device())->device_bytes();
  const std::uint64_t available = whole * 4 / 5;
  EditedDevice device(*shared_device());
  device.set_available(available);
  device.refuse_call(1);
  const auto trainer = make_on(device);
  EXPECT_LE(trainer->device_bytes(), available);
  EXPECT_EQ(trainer->plan().choice.budget, available);
  EXPECT_TRUE(step(*trainer).ok());
}

TEST_F(Shortage, KernelsMayRunOutOfMemoryWhileTheyAreProven) {
  const auto free = make_on(*shared_device());
  ASSERT_TRUE(step(*free).ok());
  Told told;
  EditedDevice device(*shared_device());
  const auto proof = RememberedDevice::open(os::system_files(), "", device, told.sink(), true);
  ASSERT_TRUE(proof.ok()) << proof.status().message();
  device.refuse_call(2);
  const auto trainer = make_on(device, told.sink(), proof->get());
  ASSERT_NE(trainer, nullptr);
  EXPECT_EQ(device.refused(), 1u);
  EXPECT_TRUE((*proof)->profile().failed().empty());
  EXPECT_FALSE((*proof)->profile().passed().empty()) << "they were tested again";
  EXPECT_TRUE(told.messages.empty()) << told.messages[0];
  EXPECT_NE(trainer->plan().choice.reasons.at(0).find("had not the"), std::string::npos);
  EXPECT_LT(trainer->device_bytes(), free->device_bytes());
  ASSERT_TRUE(step(*trainer).ok());
  EXPECT_TRUE(contents_of(*trainer) == contents_of(*free));
}

TEST_F(Shortage, EvaluationHashAndCaptureAreAnsweredToo) {
  EditedDevice device(*shared_device());
  const auto trainer = make_on(device);
  ASSERT_TRUE(step(*trainer).ok());
  const auto source = data_.source();
  const Metrics metrics = trainer->evaluate(*source).value();
  const std::uint64_t hash = trainer->state_hash().value();
  int before_replan = 0;
  trainer->set_before_invalidation([&] { ++before_replan; });
  const auto refused = [&](auto work) {
    const std::uint64_t shortages = trainer->shortages();
    device.refuse_call(1);
    EXPECT_TRUE(work());
    EXPECT_EQ(trainer->shortages(), shortages + 1);
  };
  refused([&] { return trainer->evaluate(*source).value() == metrics; });
  refused([&] { return trainer->state_hash().value() == hash; });
  refused([&] { return trainer->capture().ok(); });
  EXPECT_EQ(before_replan, 3);
}

TEST_F(Shortage, WhereNothingSmallerFitsOneSentenceSaysSoAndTheStepCanBeAskedForAgain) {
  const auto free = make_on(*shared_device());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(step(*free).ok());
  EditedDevice device(*shared_device());
  const auto trainer = make_on(device);
  ASSERT_TRUE(step(*trainer).ok());
  device.refuse_call(1, ~std::uint64_t{0} / 2);
  for (int i = 0; i < 2; ++i) {
    const auto result = step(*trainer);
    ASSERT_EQ(result.status().code(), Code::out_of_memory);
    EXPECT_NE(result.status().message().find("has no memory for"), std::string::npos) << result.status().message();
  }
  device.refuse_call(0, 0);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(step(*trainer).ok());
  EXPECT_TRUE(contents_of(*trainer) == contents_of(*free));
}

/// Memory that the host does not see, so that moving the state over needs the device too.
TEST_F(Shortage, NothingLeaksWhateverFails) {
  for (std::uint64_t call = 1;; ++call) {
    null::NullDevice device({});
    std::uint64_t calls = 0;
    {
      const auto trainer = make_on(device);
      ASSERT_NE(trainer, nullptr);
      ASSERT_TRUE(step(*trainer).ok());
      const std::uint64_t before = device.calls();
      device.fail_call(call, Code::out_of_memory);
      const auto result = step(*trainer);
      ASSERT_TRUE(result.ok()) << "call " << call << ": " << result.status().message();
      calls = device.calls() - before;
      device.fail_call(0);
      EXPECT_EQ(trainer->device_bytes(), trainer->plan().memory().total()) << "call " << call;
    }
    EXPECT_EQ(device.live_objects(), 0u) << "call " << call;
    if (calls < call) break;
  }
}

/// The driver's own calls, through the fault hook.
TEST_F(Shortage, EveryVulkanCallOfAStepMayRunOutOfMemory) {
  options_.micro_batch = kBatch / 2;  // so that there are several
  const auto free = make_on(*shared_device());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(step(*free).ok());
  const Contents expected = contents_of(*free);
  vulkan::CallFaults faults;
  vulkan::DeviceOptions options = test_device_options();
  options.instance.faults = &faults;
  const auto device = vulkan::create_device(options).value();
  for (std::uint64_t call = 1;; ++call) {
    const auto trainer = make_on(*device);
    ASSERT_TRUE(step(*trainer).ok());
    const std::uint64_t before = faults.calls;
    faults.fail_call = before + call;
    ASSERT_TRUE(step(*trainer).ok()) << "call " << call << " " << faults.failed;
    faults.fail_call = 0;
    ASSERT_TRUE(contents_of(*trainer) == expected) << "call " << call << " " << faults.failed;
    if (faults.calls < before + call) {
      EXPECT_GT(call, 4u) << "submissions and waits";
      EXPECT_EQ(trainer->shortages(), 0u);
      break;
    }
  }
}

}  // namespace
}  // namespace graft::train::shortage_test

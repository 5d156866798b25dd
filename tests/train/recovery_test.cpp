// ctest: middle
// A device that is given back, or lost, while training runs: the run goes on to the same bits.
#include <gtest/gtest.h>

#include "tests/support/lost_devices.h"
#include "tests/support/state_hash.h"
#include "tests/support/trainer_fixture.h"

namespace graft::train::recovery_test {
namespace {

using namespace test;

constexpr std::uint64_t kBatch = 8;
class Recovery : public TrainerTest {
 protected:
  Recovery() {
    options_.batch = kBatch;
    options_.micro_batch = kBatch / 2;
  }

  Result<std::unique_ptr<Trainer>> make(Devices& devices, bool recovers) const {
    GRAFT_TRY_ASSIGN(gpu::Device * device, devices.open());
    TrainerOptions out;
    out.request.samples = data_.samples;
    out.request.checkpoints = true;
    out.program.timeout = kTestTimeout;
    if (recovers) out.reopen = [&devices] { return devices.open(); };
    return Trainer::create(*device, model_.graph, model_.weight_of(), options_, data_.fields, out);
  }

  /// As many whole steps as make `steps`, and then so many micro-batches; the last step's loss.
  double go_on(Trainer& trainer, std::uint64_t steps, int more = 0) const {
    const auto source = data_.source();
    auto loader = data::Loader::create(*source, {.batch = kBatch, .shuffle = false}).value();
    if (trainer.state().step != 0) {
      EXPECT_TRUE(loader->restore(trainer.state().cursor).ok());
    }
    const data::Batch* batch = *loader->next();
    double loss = 0;
    while (trainer.state().step < steps || more-- > 0) {
      const auto result = trainer.micro_step(*batch);
      if (!result.ok()) {
        ADD_FAILURE() << result.status().message();
        return loss;
      }
      if (!*result) continue;
      loss = (*result)->metrics.loss();
      batch = *loader->next();
    }
    return loss;
  }

  TinyModel model_ = tiny_cnn(3, 0.2);
  TinyData data_ = tiny_data(24, {1, 8, 8}, 3);
  TrainOptions options_;
};

TEST_F(Recovery, APausedRunHoldsNothingAndGoesOnToTheSameBits) {
  Devices devices;
  auto through = make(devices, false);
  if (!through.ok()) GTEST_SKIP() << through.status().message();
  go_on(**through, 3);
  const std::string expected = state_text(**through);
  through->reset();

  auto made = make(devices, false);
  ASSERT_TRUE(made.ok()) << made.status().message();
  Trainer& trainer = **made;
  int told = 0;
  trainer.set_before_invalidation([&] { ++told; });
  const auto pause = [&] {
    const Status paused = trainer.pause();
    ASSERT_TRUE(paused.ok()) << paused.message();
    EXPECT_TRUE(trainer.is_paused());
    EXPECT_EQ(trainer.device_bytes(), 0u);
    EXPECT_EQ(devices.bytes(), 0u);
  };
  go_on(trainer, 0, 1);
  pause();  // in the middle of a step
  EXPECT_TRUE(trainer.pause().ok()) << "twice is once";
  EXPECT_EQ(told, 1);
  go_on(trainer, 1, 1);  // by itself
  EXPECT_FALSE(trainer.is_paused());
  pause();
  const std::uint64_t step = trainer.state().step;
  const auto hash = trainer.state_hash();  // needs the device, too
  ASSERT_TRUE(hash.ok()) << hash.status().message();
  EXPECT_FALSE(trainer.is_paused());
  EXPECT_EQ(trainer.state().step, step);
  pause();
  ASSERT_TRUE(trainer.resume().ok());
  ASSERT_TRUE(trainer.resume().ok());
  EXPECT_EQ(trainer.device_bytes(), trainer.plan().memory().total());
  go_on(trainer, 3);
  EXPECT_EQ(state_text(trainer), expected);
  pause();
  const std::string name(trainer.named_parameters().front().name);
  std::vector<std::byte> bytes(trainer.named_parameters().front().bytes);
  ASSERT_TRUE(trainer.read(name, bytes).ok());
  pause();
  ASSERT_TRUE(trainer.write(name, bytes).ok());
  EXPECT_EQ(state_text(trainer), expected);
}

TEST_F(Recovery, APauseThatFailsChangesNothing) {
  Devices devices;
  auto made = make(devices, false);
  if (!made.ok()) GTEST_SKIP() << made.status().message();
  go_on(**made, 1, 1);
  const std::string before = state_text(**made);
  const std::uint64_t held = (*made)->device_bytes();
  devices.faults.result = -2;  // VK_ERROR_OUT_OF_DEVICE_MEMORY
  int failed = 0;
  for (std::uint64_t call = 1;; ++call) {
    devices.faults.fail_call = devices.faults.calls + call;
    const Status paused = (*made)->pause();
    devices.faults.fail_call = 0;
    if (paused.ok()) break;
    ++failed;
    EXPECT_EQ((*made)->device_bytes(), held);
    EXPECT_EQ(state_text(**made), before);
  }
  EXPECT_EQ(devices.bytes(), 0u);
  EXPECT_EQ(state_text(**made), before) << "after " << failed << " failures";
}

TEST_F(Recovery, ADeviceThatIsLostAtAnyCallOfAStepChangesNoBit) {
  Devices devices;
  auto through = make(devices, true);
  if (!through.ok()) GTEST_SKIP() << through.status().message();
  go_on(**through, 1);
  const std::uint64_t before = devices.faults.calls;
  const double loss = go_on(**through, 2);
  const std::uint64_t calls = devices.faults.calls - before;  // of one step, with the copy after it
  go_on(**through, 3);
  const std::string expected = state_text(**through);
  through->reset();
  ASSERT_EQ(devices.bytes(), 0u);
  ASSERT_GT(calls, 4u) << "submissions and waits";
  auto made = make(devices, true);
  ASSERT_TRUE(made.ok()) << made.status().message();
  go_on(**made, 1);
  Contents first = contents_of(**made);
  const TrainingState state = (*made)->state();
  for (std::uint64_t call = 1; call <= calls; ++call) {
    devices.faults.fail_call = devices.faults.calls + call;
    const std::uint64_t losses = (*made)->losses();
    EXPECT_EQ(go_on(**made, 2), loss) << devices.faults.failed;
    devices.faults.fail_call = 0;
    EXPECT_EQ((*made)->losses(), losses + 1) << call << ' ' << devices.faults.failed;
    go_on(**made, 3);
    ASSERT_EQ(state_text(**made), expected) << call << ' ' << devices.faults.failed;
    // Back to where the step began, for the next call.
    for (const auto& [name, values] : first) ASSERT_TRUE((*made)->write(name, std::as_bytes(std::span(values))).ok());
    (*made)->state() = state;
    devices.all.erase(devices.all.begin(), devices.all.end() - 1);  // nothing is left on the lost one
  }
  made->reset();
  EXPECT_EQ(devices.bytes(), 0u) << "nothing leaked";
}

TEST_F(Recovery, WithoutAnotherDeviceTheLossIsAnErrorAndNothingIsForgotten) {
  Devices devices;
  auto made = make(devices, true);
  if (!made.ok()) GTEST_SKIP() << made.status().message();
  go_on(**made, 2);
  const std::string before = state_text(**made);
  const auto source = data_.source();
  auto loader = data::Loader::create(*source, {.batch = kBatch, .shuffle = false}).value();
  ASSERT_TRUE(loader->restore((*made)->state().cursor).ok());
  const data::Batch* batch = *loader->next();
  devices.refused = error(Code::not_found, "There is no device.");
  devices.faults.fail_call = devices.faults.calls + 1;
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto result = (*made)->train_step(*batch);
    EXPECT_EQ(result.status().code(), Code::not_found) << result.status().message();
    devices.faults.fail_call = attempt == 0 ? devices.faults.calls + 1 : 0;
  }
  devices.refused = {};
  ASSERT_TRUE((*made)->resume().ok());
  EXPECT_EQ(state_text(**made), before);

  auto plain = make(devices, false);
  ASSERT_TRUE(plain.ok());
  devices.faults.fail_call = devices.faults.calls + 1;
  EXPECT_EQ((*plain)->train_step(*batch).status().code(), Code::device_lost) << "nobody asked for a copy";
}

}  // namespace
}  // namespace graft::train::recovery_test

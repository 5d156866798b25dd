// The C ABI: runs and steps on the context's own thread, what they are told to, and progress.
#include <condition_variable>
#include <mutex>
#include <utility>

#include "tests/support/c_api.h"
#include "tests/support/state_hash.h"

#include "runtime/session/c_api/c_handles.h"

namespace graft::test::c_api_async_test {
namespace {

/// What was told, in order; wait() for so many.
struct Told {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::pair<graft_status, std::string>> all;

  static void done(void* user, graft_status status, const char* message) {
    auto* told = static_cast<Told*>(user);
    const std::lock_guard lock(told->mutex);
    told->all.emplace_back(status, message);
    told->changed.notify_all();
  }
  const std::pair<graft_status, std::string>& wait(std::size_t count) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return all.size() >= count; });
    return all[count - 1];
  }
};

using CApiAsync = CApi;

TEST_F(CApiAsync, RunsAreToldInTheirOrder) {
  const auto expected = run_model(h_.model);
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  Told told;
  ASSERT_EQ(graft_session_run_async(h_.session, Told::done, &told), GRAFT_OK);
  const auto& [status, message] = told.wait(1);
  EXPECT_EQ(status, GRAFT_INVALID_ARGUMENT) << "nothing was given";
  EXPECT_TRUE(contains(message, "was not given")) << message;
  ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
  constexpr std::size_t kRuns = 20;
  for (std::size_t i = 0; i < kRuns; ++i) {
    ASSERT_EQ(graft_session_run_async(h_.session, Told::done, &told), GRAFT_OK);
  }
  told.wait(1 + kRuns);
  for (std::size_t i = 1; i <= kRuns; ++i) EXPECT_EQ(told.all[i], std::pair(GRAFT_OK, std::string()));
  EXPECT_EQ(output(h_.session), expected);
  EXPECT_EQ(graft_session_run_async(h_.session, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_session_run_async(nullptr, Told::done, &told), GRAFT_INVALID_ARGUMENT);
}

TEST_F(CApiAsync, StepsGoOnToTheSameBits) {
  constexpr std::size_t kSteps = 6;
  ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
  for (std::size_t i = 0; i < kSteps; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  const std::string expected = state_text(*h_.trainer->trainer);
  ASSERT_EQ(open_trainer(trainer_options()), GRAFT_OK) << h_.message();
  Told told;
  auto metrics = sized<graft_metrics>();
  for (std::size_t i = 0; i < kSteps; ++i) {
    const void* inputs[] = {batch_.x.data()};  // this array is the call's alone
    ASSERT_EQ(
        graft_train_step_async(h_.trainer, inputs, 1, batch_.labels.data(), kSamples, &metrics, Told::done, &told),
        GRAFT_OK);
    inputs[0] = nullptr;
  }
  EXPECT_EQ(told.wait(kSteps), std::pair(GRAFT_OK, std::string()));
  EXPECT_EQ(metrics.step, kSteps);
  EXPECT_EQ(state_text(*h_.trainer->trainer), expected);
  EXPECT_EQ(graft_train_step_async(h_.trainer, nullptr, 1, nullptr, kSamples, nullptr, Told::done, &told), GRAFT_OK);
  EXPECT_EQ(told.wait(kSteps + 1).first, GRAFT_INVALID_ARGUMENT);
}

// The app gives all its handles up, and the last one that is needed goes on the context's own thread.
TEST_F(CApiAsync, WhatWasAskedForOutlivesItsHandles) {
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
  Told told;
  for (int i = 0; i < 3; ++i) ASSERT_EQ(graft_session_run_async(h_.session, Told::done, &told), GRAFT_OK);
  h_.destroy_parts();
  graft_context_destroy(std::exchange(h_.context, nullptr));
  EXPECT_EQ(told.wait(3), std::pair(GRAFT_OK, std::string()));
}

struct Again {
  graft_session* session = nullptr;
  Told told;
  int left = 3;
  static void done(void* user, graft_status status, const char* message) {
    auto* again = static_cast<Again*>(user);
    const void* data = nullptr;
    EXPECT_EQ(graft_session_output(again->session, "y", &data, nullptr, nullptr), GRAFT_OK) << "it is no call's";
    if (--again->left > 0) {
      EXPECT_EQ(graft_session_run_async(again->session, done, user), GRAFT_OK);
    } else {
      graft_session_destroy(again->session);
      Told::done(&again->told, status, message);
    }
  }
};

TEST_F(CApiAsync, WhoIsToldMayCallGraft) {
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
  Again again;
  again.session = std::exchange(h_.session, nullptr);
  ASSERT_EQ(graft_session_run_async(again.session, Again::done, &again), GRAFT_OK);
  EXPECT_EQ(again.told.wait(1).first, GRAFT_OK);
}

struct Progress {
  graft_context* context = nullptr;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> stages[3];
  bool cancel = false;
  static void tell(void* user, graft_stage stage, std::uint64_t done, std::uint64_t total) {
    auto* progress = static_cast<Progress*>(user);
    progress->stages[stage].emplace_back(done, total);
    if (progress->cancel) graft_cancel(progress->context);
    EXPECT_EQ(graft_set_progress(progress->context, nullptr, nullptr), GRAFT_INVALID_ARGUMENT) << "within a call";
  }
};

TEST_F(CApiAsync, ProgressIsToldAndMayCancel) {
  Progress progress{h_.context};
  ASSERT_EQ(graft_set_progress(h_.context, Progress::tell, &progress), GRAFT_OK) << h_.message();
  auto options = trainer_options();
  options.micro_batch = 1;
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  const auto& kernels = progress.stages[GRAFT_STAGE_KERNELS];
  ASSERT_FALSE(kernels.empty());
  EXPECT_EQ(kernels.back().first, kernels.back().second);
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> samples = {{1, 4}, {2, 4}, {3, 4}, {4, 4}};
  EXPECT_EQ(progress.stages[GRAFT_STAGE_SAMPLES], samples);
  progress.cancel = true;
  graft_session* session = nullptr;
  const graft_binding batch = {"batch", kSamples};
  auto wanted = sized<graft_session_options>();
  wanted.bindings = &batch;
  wanted.binding_count = 1;
  EXPECT_EQ(graft_session_create(h_.model, &wanted, &session), GRAFT_CANCELLED);
  EXPECT_TRUE(contains(h_.message(), "kernels were compiled")) << h_.message();
  EXPECT_EQ(session, nullptr);
  ASSERT_EQ(graft_set_progress(h_.context, nullptr, nullptr), GRAFT_OK) << h_.message();
  EXPECT_EQ(graft_session_create(h_.model, &wanted, &session), GRAFT_OK) << h_.message();
  graft_session_destroy(session);
  EXPECT_EQ(graft_set_progress(nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace graft::test::c_api_async_test

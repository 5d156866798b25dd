// The C ABI: runs and steps on the context's own thread, what they are told to, and progress.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "tests/support/c_api.h"
#include "tests/support/state_hash.h"

#include "runtime/c_api/c_handles.h"

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

/// Holds the context's thread until it is let go.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  static void done(void* user, graft_status, const char*) {
    auto* gate = static_cast<Gate*>(user);
    std::unique_lock lock(gate->mutex);
    gate->changed.wait(lock, [&] { return gate->open; });
  }
  void let_go() {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
};

TEST_F(CApiAsync, TasksAreWaitedForAndCancelledAlone) {
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
  graft_task *first = nullptr, *second = nullptr;
  ASSERT_EQ(graft_task_create(h_.context, &first), GRAFT_OK);
  ASSERT_EQ(graft_task_create(h_.context, &second), GRAFT_OK);
  graft_status outcome = GRAFT_INTERNAL;
  EXPECT_EQ(graft_task_wait(first, 0, &outcome), GRAFT_INVALID_ARGUMENT) << "it was given to nothing";
  Gate gate;
  ASSERT_EQ(graft_session_run_async(h_.session, Gate::done, &gate), GRAFT_OK);
  ASSERT_EQ(graft_session_run_async(h_.session, graft_task_done, first), GRAFT_OK);
  ASSERT_EQ(graft_session_run_async(h_.session, graft_task_done, second), GRAFT_OK);
  EXPECT_EQ(graft_session_run_async(h_.session, graft_task_done, second), GRAFT_INVALID_ARGUMENT) << "it waits already";
  EXPECT_EQ(graft_task_wait(first, 0, &outcome), GRAFT_TIMEOUT);
  EXPECT_EQ(graft_task_wait(first, 5, &outcome), GRAFT_TIMEOUT);
  EXPECT_EQ(outcome, GRAFT_INTERNAL) << "nothing was written";
  graft_task_cancel(first);
  gate.let_go();
  EXPECT_EQ(graft_task_wait(first, -1, &outcome), GRAFT_OK);
  EXPECT_EQ(outcome, GRAFT_CANCELLED);
  EXPECT_TRUE(contains(graft_task_message(first), "before it began")) << graft_task_message(first);
  EXPECT_EQ(graft_task_wait(second, 60e3, &outcome), GRAFT_OK);
  EXPECT_EQ(outcome, GRAFT_OK) << "only the first was cancelled";
  EXPECT_STREQ(graft_task_message(second), "");
  // A task serves again, and what is cancelled too late or too early touches nothing.
  graft_task_cancel(first);
  ASSERT_EQ(graft_session_run_async(h_.session, graft_task_done, first), GRAFT_OK);
  EXPECT_EQ(graft_task_wait(first, -1, &outcome), GRAFT_OK);
  EXPECT_EQ(outcome, GRAFT_OK);
  EXPECT_EQ(graft_session_run_async(h_.session, graft_task_done, nullptr), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_task_wait(nullptr, 0, &outcome), GRAFT_INVALID_ARGUMENT);
  EXPECT_EQ(graft_task_create(h_.context, nullptr), GRAFT_INVALID_ARGUMENT);
  graft_task_destroy(first);
  graft_task_destroy(second);
}

/// Tells when the first sample was, and keeps the call there until it is let go.
struct Held {
  Gate gate;
  std::atomic<bool> reached = false;
  static void tell(void* user, graft_stage stage, std::uint64_t, std::uint64_t) {
    auto* held = static_cast<Held*>(user);
    if (stage != GRAFT_STAGE_SAMPLES || held->reached.exchange(true)) return;
    Gate::done(&held->gate, GRAFT_OK, "");
  }
};

TEST_F(CApiAsync, ARunningTaskEndsBetweenMicroBatchesAndGoesOnToTheSameBits) {
  auto options = trainer_options();
  options.micro_batch = 1;
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  const std::string expected = state_text(*h_.trainer->trainer);
  ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
  Held held;
  ASSERT_EQ(graft_set_progress(h_.context, Held::tell, &held), GRAFT_OK) << h_.message();
  graft_task* task = nullptr;
  ASSERT_EQ(graft_task_create(h_.context, &task), GRAFT_OK);
  const auto step = [&] {
    return graft_train_step_async(h_.trainer, batch_.inputs, 1, batch_.labels.data(), kSamples, nullptr,
                                  graft_task_done, task);
  };
  ASSERT_EQ(step(), GRAFT_OK);
  while (!held.reached) std::this_thread::yield();
  graft_task_cancel(task);
  held.gate.let_go();
  graft_status outcome = GRAFT_OK;
  ASSERT_EQ(graft_task_wait(task, -1, &outcome), GRAFT_OK);
  EXPECT_EQ(outcome, GRAFT_CANCELLED) << graft_task_message(task);
  ASSERT_EQ(step(), GRAFT_OK);
  ASSERT_EQ(graft_task_wait(task, -1, &outcome), GRAFT_OK);
  EXPECT_EQ(outcome, GRAFT_OK) << graft_task_message(task);
  EXPECT_EQ(state_text(*h_.trainer->trainer), expected);
  graft_task_destroy(task);
}

/// Whoever is told, on the context's thread, may not wait there for what comes after.
struct Waits {
  graft_session* session = nullptr;
  graft_task* task = nullptr;
  Told told;
  static void done(void* user, graft_status status, const char* message) {
    auto* waits = static_cast<Waits*>(user);
    graft_status outcome = GRAFT_OK;
    EXPECT_EQ(graft_session_run_async(waits->session, graft_task_done, waits->task), GRAFT_OK);
    EXPECT_EQ(graft_task_wait(waits->task, -1, &outcome), GRAFT_INVALID_ARGUMENT);
    Told::done(&waits->told, status, message);
  }
};

TEST_F(CApiAsync, NobodyWaitsForHimself) {
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
  Waits waits{h_.session, nullptr, {}};
  ASSERT_EQ(graft_task_create(h_.context, &waits.task), GRAFT_OK);
  ASSERT_EQ(graft_session_run_async(h_.session, Waits::done, &waits), GRAFT_OK);
  waits.told.wait(1);
  graft_status outcome = GRAFT_INTERNAL;
  EXPECT_EQ(graft_task_wait(waits.task, -1, &outcome), GRAFT_OK);
  EXPECT_EQ(outcome, GRAFT_OK);
  graft_task_destroy(waits.task);
}

// The same samples as graft_train_next takes one after another, and the handles go before the last is done.
TEST_F(CApiAsync, StepsOnALoaderGoOnToTheSameBits) {
  const graft_field fields[] = {{"x", GRAFT_F32, 1, {kInputs}, 0}, {"label", GRAFT_I32, 0, {}, 1}};
  const void* const blocks[] = {batch_.x.data(), batch_.labels.data()};
  auto loading = sized<graft_loader_options>();
  loading.batch = 2;
  loading.epochs = 3;
  std::string states[2];
  for (const bool beside : {false, true}) {
    graft_data_set* set = nullptr;
    graft_loader* loader = nullptr;
    ASSERT_EQ(graft_data_from_memory(h_.context, fields, 2, blocks, kSamples, &set), GRAFT_OK) << h_.message();
    ASSERT_EQ(graft_loader_create(set, &loading, &loader), GRAFT_OK) << h_.message();
    auto options = trainer_options();
    options.batch = 2;
    options.data = set;
    ASSERT_EQ(open_trainer(options), GRAFT_OK) << h_.message();
    int more = 1;
    std::size_t steps = 0;
    auto metrics = sized<graft_metrics>();
    if (beside) {
      Told told;
      for (; more != 0; ++steps) {
        ASSERT_EQ(graft_train_next_async(h_.trainer, loader, &more, &metrics, Told::done, &told), GRAFT_OK);
        EXPECT_EQ(told.wait(steps + 1), std::pair(GRAFT_OK, std::string()));
      }
      EXPECT_EQ(graft_train_next_async(h_.trainer, nullptr, &more, &metrics, Told::done, &told),
                GRAFT_INVALID_ARGUMENT);
    } else {
      for (; more != 0; ++steps) ASSERT_EQ(graft_train_next(h_.trainer, loader, &more, &metrics), GRAFT_OK);
    }
    EXPECT_EQ(steps, 7u) << "six batches, and the end";
    states[beside ? 1 : 0] = state_text(*h_.trainer->trainer);
    graft_loader_destroy(loader);
    graft_data_destroy(set);
  }
  EXPECT_EQ(states[0], states[1]);
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
  std::vector<std::pair<std::uint64_t, std::uint64_t>> stages[5];
  std::optional<graft_stage> cancel = {};
  static void tell(void* user, graft_stage stage, std::uint64_t done, std::uint64_t total) {
    auto* progress = static_cast<Progress*>(user);
    progress->stages[stage].emplace_back(done, total);
    if (progress->cancel == stage) graft_cancel(progress->context);
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
  std::uint64_t planned = 0;  // counted from 1 in each call
  for (const auto& [done, total] : progress.stages[GRAFT_STAGE_PLAN]) {
    EXPECT_TRUE(done == planned + 1 || done == 1) << done << " after " << planned;
    EXPECT_EQ(total, 0u);
    planned = done;
  }
  EXPECT_GT(progress.stages[GRAFT_STAGE_PLAN].size(), 10u);
  graft_session* session = nullptr;
  const graft_binding batch = {"batch", kSamples};
  auto wanted = sized<graft_session_options>();
  wanted.bindings = &batch;
  wanted.binding_count = 1;
  progress.cancel = GRAFT_STAGE_PLAN;
  EXPECT_EQ(graft_session_create(h_.model, &wanted, &session), GRAFT_CANCELLED);
  EXPECT_EQ(session, nullptr);
  progress.cancel = GRAFT_STAGE_KERNELS;
  EXPECT_EQ(graft_session_create(h_.model, &wanted, &session), GRAFT_CANCELLED);
  EXPECT_TRUE(contains(h_.message(), "kernels were compiled")) << h_.message();
  EXPECT_EQ(session, nullptr);
  ASSERT_EQ(graft_set_progress(h_.context, nullptr, nullptr), GRAFT_OK) << h_.message();
  (void)graft_uncancel(h_.context);
  EXPECT_EQ(graft_session_create(h_.model, &wanted, &session), GRAFT_OK) << h_.message();
  graft_session_destroy(session);
  EXPECT_EQ(graft_set_progress(nullptr, nullptr, nullptr), GRAFT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace graft::test::c_api_async_test

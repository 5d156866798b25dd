// The C ABI and threads: graft_cancel() at random instants, from a second thread, and each thread's own message.
#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/c_api/c_handles.h"
#include "tests/support/c_api.h"
#include "tests/support/state_hash.h"

namespace graft::test::c_api_cancel_test {
namespace {

/// Cancels again and again, after times that come from a generator, until it is destroyed.
class Canceller {
 public:
  explicit Canceller(graft_context* context) : context_(context), thread_([this, context] { work(context); }) {}
  ~Canceller() {
    stopping_ = true;
    thread_.join();
    (void)graft_uncancel(context_);
  }

 private:
  void work(graft_context* context) {
    data::Random random(data::mix(11));
    while (!stopping_) {
      std::this_thread::sleep_for(std::chrono::microseconds(static_cast<int>(random.uniform(1, 400))));
      graft_cancel(context);
    }
  }
  graft_context* context_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class CApiCancel : public CApi {
 protected:
  std::string state() { return state_text(*h_.trainer->trainer); }
  graft_trainer_options options_of(std::uint32_t micro_batch) {
    auto options = trainer_options();
    options.optimizer = GRAFT_ADAMW;
    options.micro_batch = micro_batch;
    return options;
  }
};

TEST_F(CApiCancel, AStepThatIsCancelledGoesOnToTheSameBits) {
  constexpr int kSteps = 40;
  int cancelled = 0;
  for (const std::uint32_t micro : {0u, 1u}) {
    ASSERT_EQ(open_trainer(options_of(micro)), GRAFT_OK) << h_.message();
    for (int i = 0; i < kSteps; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
    const std::string undisturbed = state();
    ASSERT_EQ(open_trainer(options_of(micro)), GRAFT_OK) << h_.message();
    {
      const Canceller canceller(h_.context);
      for (int i = 0; i < kSteps; ++i) {
        for (;;) {
          const graft_status status = batch_.step(h_.trainer);
          if (status == GRAFT_OK) break;
          ASSERT_EQ(status, GRAFT_CANCELLED) << h_.message();
          if (++cancelled % 16 == 0) (void)state();  // can be read at any time
        }
      }
    }
    EXPECT_EQ(state(), undisturbed) << micro;
  }
  EXPECT_GT(cancelled, 0) << "no instant was within a call";
}

TEST_F(CApiCancel, ThePaceChangesNoBit) {
  constexpr int kSteps = 30;
  ASSERT_EQ(open_trainer(options_of(1)), GRAFT_OK) << h_.message();
  for (int i = 0; i < kSteps; ++i) ASSERT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  const std::string undisturbed = state();
  ASSERT_EQ(open_trainer(options_of(1)), GRAFT_OK) << h_.message();
  std::atomic<bool> done{false};
  std::thread other([&] {  // another share each time, while steps are in progress
    for (int i = 0; !done; ++i) EXPECT_EQ(graft_set_pace(h_.context, i % 3 * 0.5, i % 2 == 0 ? 0.5 : 0), GRAFT_OK);
  });
  for (int i = 0; i < kSteps; ++i) EXPECT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  done = true;
  other.join();
  EXPECT_EQ(state(), undisturbed);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const auto& [slice, duty] : {std::pair{-1.0, 1.0},
                                    {0.4, 1.0},
                                    {60001.0, 1.0},
                                    {nan, 1.0},
                                    {8.0, -0.5},
                                    {8.0, 1.1},
                                    {8.0, 0.001},
                                    {8.0, nan}}) {
    EXPECT_EQ(graft_set_pace(h_.context, slice, duty), GRAFT_INVALID_ARGUMENT) << slice << ' ' << duty;
  }
  EXPECT_EQ(graft_set_pace(nullptr, 8, 1), GRAFT_INVALID_ARGUMENT);
}

TEST_F(CApiCancel, TheLogTellsOfSubmissionsWhereTheyWereToBeShort) {
  for (const double slice : {0.0, 8.0}) {
    std::string last;
    CHandles h;
    auto options = context_options(device_);
    options.log = [](void* user, graft_log_level, const char* text) { *static_cast<std::string*>(user) = text; };
    options.log_user = &last;
    options.log_level = GRAFT_LOG_INFO;
    ASSERT_EQ(graft_context_create(&options, &h.context), GRAFT_OK) << h.message();
    ASSERT_EQ(graft_set_pace(h.context, slice, 0), GRAFT_OK);
    ASSERT_EQ(graft_model_load(h.context, path_.c_str(), &h.model), GRAFT_OK) << h.message();
    const auto training = options_of(1);
    ASSERT_EQ(graft_trainer_create(h.model, &training, &h.trainer), GRAFT_OK) << h.message();
    ASSERT_EQ(batch_.step(h.trainer), GRAFT_OK) << h.message();
    graft_trainer_destroy(std::exchange(h.trainer, nullptr));
    graft_model_destroy(std::exchange(h.model, nullptr));
    graft_context_destroy(std::exchange(h.context, nullptr));
    EXPECT_EQ(contains(last, " submissions: half took at most "), slice != 0) << last;
  }
}

TEST_F(CApiCancel, RunsAndEvaluationsEndAndCanBeAskedForAgain) {
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
  ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
  const std::vector<float> expected = output(h_.session);
  ASSERT_EQ(open_trainer(options_of(1)), GRAFT_OK) << h_.message();
  const std::string before = state();
  auto metrics = sized<graft_metrics>();
  const auto evaluate = [&] {
    return graft_evaluate(h_.trainer, batch_.inputs, 1, batch_.labels.data(), kSamples, &metrics);
  };
  ASSERT_EQ(evaluate(), GRAFT_OK) << h_.message();
  const double loss = metrics.loss;
  int cancelled = 0, done = 0;
  {
    const Canceller canceller(h_.context);
    for (int i = 0; i < 400; ++i) {
      const graft_status status = i % 2 == 0 ? graft_session_run(h_.session) : evaluate();
      ASSERT_TRUE(status == GRAFT_OK || status == GRAFT_CANCELLED) << h_.message();
      (status == GRAFT_OK ? done : cancelled) += 1;
    }
  }
  EXPECT_GT(cancelled, 0) << "no instant was within a call";
  ASSERT_EQ(graft_session_run(h_.session), GRAFT_OK) << h_.message();
  EXPECT_EQ(output(h_.session), expected);
  ASSERT_EQ(evaluate(), GRAFT_OK) << h_.message();
  EXPECT_EQ(metrics.loss, loss);
  EXPECT_EQ(state(), before);
}

TEST_F(CApiCancel, EachEndsOneCall) {
  ASSERT_EQ(open_session(), GRAFT_OK) << h_.message();
  ASSERT_EQ(open_trainer(options_of(0)), GRAFT_OK) << h_.message();
  int cancelled = 0;
  for (int i = 0; i < 100; ++i) {
    graft_cancel(h_.context);  // between two calls
    graft_cancel(h_.context);  // the same again: one call ends for both
    // What does not look does not take it away.
    ASSERT_EQ(graft_session_set_input(h_.session, "x", batch_.x.data(), batch_.bytes()), GRAFT_OK) << h_.message();
    ASSERT_EQ(graft_trainer_store(h_.trainer), GRAFT_OK) << h_.message();
    const auto call = [&] { return i % 2 == 0 ? batch_.step(h_.trainer) : graft_session_run(h_.session); };
    cancelled += call() == GRAFT_CANCELLED ? 1 : 0;
    ASSERT_EQ(call(), GRAFT_OK) << h_.message();
  }
  EXPECT_EQ(cancelled, 100);
  graft_cancel(h_.context);
  EXPECT_EQ(graft_uncancel(h_.context), 1);
  EXPECT_EQ(graft_uncancel(h_.context), 0);
  EXPECT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  graft_cancel(nullptr);
  EXPECT_EQ(graft_uncancel(nullptr), 0);
}

/// Cancels when the samples of a call are done: nothing of it looks any more.
struct Late {
  graft_context* context;
  graft_task* task;
  static void tell(void* user, graft_stage stage, std::uint64_t done, std::uint64_t total) {
    const auto& late = *static_cast<const Late*>(user);
    if (stage != GRAFT_STAGE_SAMPLES || done != total) return;
    if (late.task != nullptr) {
      graft_task_cancel(late.task);
    } else {
      graft_cancel(late.context);
    }
  }
};

TEST_F(CApiCancel, OneThatComesTooLateIsTheNextCallsButATasksIsDropped) {
  ASSERT_EQ(open_trainer(options_of(0)), GRAFT_OK) << h_.message();
  graft_task* task = nullptr;
  ASSERT_EQ(graft_task_create(h_.context, &task), GRAFT_OK);
  Late late{h_.context, nullptr};
  ASSERT_EQ(graft_set_progress(h_.context, Late::tell, &late), GRAFT_OK) << h_.message();
  EXPECT_EQ(batch_.step(h_.trainer), GRAFT_OK) << h_.message();
  EXPECT_EQ(batch_.step(h_.trainer), GRAFT_CANCELLED);
  late.task = task;
  graft_status outcome = GRAFT_INTERNAL;
  ASSERT_EQ(graft_train_step_async(h_.trainer, batch_.inputs, 1, batch_.labels.data(), kSamples, nullptr,
                                   graft_task_done, task),
            GRAFT_OK)
      << h_.message();
  ASSERT_EQ(graft_task_wait(task, -1, &outcome), GRAFT_OK) << h_.message();
  EXPECT_EQ(outcome, GRAFT_OK) << graft_task_message(task);
  late.task = nullptr;
  ASSERT_EQ(graft_set_progress(h_.context, nullptr, nullptr), GRAFT_OK) << h_.message();
  EXPECT_EQ(batch_.step(h_.trainer), GRAFT_OK) << "a task's cancel is of no other call";
  graft_task_destroy(task);
}

TEST_F(CApiCancel, EachThreadHasItsOwnMessage) {
  constexpr int kThreads = 4, kCalls = 300;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      graft_model* model = nullptr;
      if (std::string(graft_message(h_.context)) != "") ++wrong;
      for (int i = 0; i < kCalls; ++i) {
        const std::string path = "/nowhere/" + std::to_string(t) + "/" + std::to_string(i);
        if (graft_model_load(h_.context, path.c_str(), &model) == GRAFT_OK) ++wrong;
        const char* message = graft_message(h_.context);  // valid until this thread's next call
        std::this_thread::yield();
        if (std::string(message).find(path) == std::string::npos) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(h_.message(), "");
}

}  // namespace
}  // namespace graft::test::c_api_cancel_test

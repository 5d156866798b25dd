// What workers must agree on before a step, and what becomes of a worker that does not.
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>

#include "platform/base/hash.h"
#include "platform/group/in_process.h"
#include "runtime/distribute/group_exchange.h"
#include "runtime/distribute/parcels.h"
#include "runtime/distribute/start.h"
#include "tests/support/freeze.h"
#include "tests/support/trainer_fixture.h"

namespace graft::distribute::agreement_test {
namespace {

using Step = train::SlotExchange::Step;

Step usual_step() {
  Step step;
  step.number = 4;
  step.samples = 12;
  step.slots = 3;
  step.state_hash = 77;
  step.gradient_bytes = 24;
  step.seed = 9;
  step.epoch = 2;
  step.place = 36;
  step.learning_rate = 0.5;
  return step;
}

/// What begin() gave each worker.
struct Begun {
  Status status;
  Step step;
  bool differs = false;
  bool ended = false;
};

/// Of as many workers as steps. `prepare` is called for each before.
std::vector<Begun> begin_all(const std::vector<Step>& steps,
                             const std::function<void(std::size_t, GroupExchange&)>& prepare = {}) {
  const auto ends = group::in_process(steps.size());
  std::vector<Begun> out(steps.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < steps.size(); ++rank) {
    threads.emplace_back([&, rank] {
      GroupExchange exchange(*ends[rank], *test::shared_device());
      if (prepare) prepare(rank, exchange);
      out[rank].step = steps[rank];
      out[rank].status = exchange.begin(out[rank].step);
      out[rank].differs = exchange.differs();
      out[rank].ended = exchange.has_ended();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return out;
}

class AgreementTest : public test::TrainerTest {};

TEST_F(AgreementTest, AllThatChangesAStepIsCompared) {
  const std::pair<void (*)(Step&), const char*> changes[] = {
      {[](Step& step) { step.number = 5; }, "Worker 1 has 5 steps behind it, worker 0 has 4"},
      {[](Step& step) { step.samples = 11; }, "Worker 1 has 11 samples in the step's batch, worker 0 has 12"},
      {[](Step& step) { step.slots = 4; }, "micro-batches in a step"},
      {[](Step& step) { step.gradient_bytes = 28; }, "bytes of gradients"},
      {[](Step& step) { step.statistics_bytes = 8; }, "bytes of running statistics"},
      {[](Step& step) { step.seed = 10; }, "Worker 1 has 10 as its seed, worker 0 has 9"},
      {[](Step& step) { step.epoch = 3; }, "Worker 1 has 3 epochs behind it, worker 0 has 2"},
      {[](Step& step) { step.place = 24; }, "Worker 1 has 24 samples of the epoch behind it, worker 0 has 36"},
      {[](Step& step) { step.precision = 1; }, "as its precision"},
      {[](Step& step) { step.learning_rate = 0.25; }, "Worker 1 has the learning rate 0.25, worker 0 has 0.5"},
      {[](Step& step) { step.state_hash = 78; }, "are not those of the others: 1."}};
  for (const auto& [change, says] : changes) {
    std::vector<Step> steps(2, usual_step());
    change(steps[1]);
    const auto begun = begin_all(steps);
    for (const Begun& one : begun) EXPECT_FALSE(one.status.ok()) << says;
    EXPECT_NE(begun[0].status.message().find(says), std::string::npos) << begun[0].status.message();
  }
  for (const Begun& one : begin_all({usual_step(), usual_step()})) EXPECT_TRUE(one.status.ok());
}

/// Only a worker 0 that has what most have may bring the others up to date.
TEST_F(AgreementTest, HealingIsOfferedWhereWorker0IsRight) {
  for (const std::size_t wrong : {0, 1, 2}) {
    std::vector<Step> steps(3, usual_step());
    steps[wrong].state_hash = 1;
    for (const Begun& one : begin_all(steps)) {
      EXPECT_EQ(one.status.code(), Code::corrupt);
      EXPECT_NE(one.status.message().find(cat("of the others: ", wrong, ".")), std::string::npos);
      EXPECT_EQ(one.differs, wrong != 0) << wrong;
    }
  }
}

TEST_F(AgreementTest, WhatWorker0DecidesCountsForAll) {
  std::vector<Step> steps(3, usual_step());
  steps[0].learning_rate = 0.125;  // an evaluation has lowered it
  steps[0].evaluated_at = 4;
  steps[0].wants_whole = 1;
  steps[0].monitors[1] = {.best = 3, .best_step = 2, .waited = 1, .seen = 5};
  const auto joined = [](std::size_t, GroupExchange& exchange) { exchange.set_shared(0.5, false); };
  for (const Begun& one : begin_all(steps, joined)) {
    EXPECT_TRUE(one.status.ok()) << one.status.message();
    EXPECT_EQ(one.step.learning_rate, 0.125);
    EXPECT_EQ(one.step.evaluated_at, 4u);
    EXPECT_EQ(one.step.wants_whole, 1u);
    EXPECT_EQ(one.step.monitors, steps[0].monitors);
  }
  steps[2].learning_rate = 0.25;  // by itself
  for (const Begun& one : begin_all(steps, joined)) {
    EXPECT_NE(one.status.message().find("Worker 2 has the learning rate 0.25"), std::string::npos);
  }
}

TEST_F(AgreementTest, Worker0EndsTheRunOfAll) {
  const std::vector<Step> steps(2, usual_step());
  for (const std::size_t asks : {0, 1}) {
    const auto begun = begin_all(steps, [&](std::size_t rank, GroupExchange& exchange) {
      if (rank == asks) exchange.end_run();
    });
    for (const Begun& one : begun) {
      EXPECT_EQ(one.status.code(), asks == 0 ? Code::cancelled : Code::invalid_argument) << one.status.message();
      EXPECT_EQ(one.ended, asks == 0);
    }
  }
}

/// All of worker 0's state: parameters, optimizer, step, seed, place in the data, rate and what evaluations left.
TEST_F(AgreementTest, WhoeverComesHasTheStateOfWorker0) {
  const auto ends = group::in_process(2);
  const test::TinyModel model = test::tiny_mlp(5, 7, 3);
  const test::TinyData data = test::tiny_data(21, {5}, 3);
  struct Had {
    Status status;
    train::TrainingState state;
    double rate = 0;
    test::Contents contents;
    std::vector<std::byte> next;
  } had[2];
  const auto work = [&](std::size_t rank) -> Status {
    GRAFT_TRY_ASSIGN(const auto device, test::test_device());
    train::TrainOptions options;
    options.batch = 8;
    options.seed = rank == 0 ? 3 : 5;
    train::TrainerOptions trainer_options;
    trainer_options.request.evaluation = false;
    trainer_options.request.samples = data.samples;
    GRAFT_TRY_ASSIGN(const auto trainer, train::Trainer::create(*device, model.graph, model.weight_of(), options,
                                                                data.fields, trainer_options));
    const auto source = data.source();
    GRAFT_TRY_ASSIGN(const auto loader, data::Loader::create(*source, {.batch = 8, .seed = 9}));
    for (int step = 0; rank == 0 && step < 2; ++step) {
      GRAFT_TRY_ASSIGN(const data::Batch* const batch, loader->next());
      GRAFT_TRY(detail::to_status(trainer->train_step(*batch)));
    }
    if (rank == 0) {
      trainer->state().monitors[0] = {.best = 0.25, .best_step = 1, .waited = 1, .seen = 2};
      trainer->state().evaluated_at = 2;
      GRAFT_TRY(trainer->set_learning_rate(0.125));
    }
    GRAFT_TRY(share_state(*ends[rank], *trainer, loader.get(), group::kNoDeadline));
    had[rank].state = trainer->state();
    had[rank].rate = trainer->options().optimizer.learning_rate;
    had[rank].contents = test::contents_of(*trainer);
    GRAFT_TRY_ASSIGN(const data::Batch* const batch, loader->next());
    const auto field = batch->field(0);
    had[rank].next.assign(field.begin(), field.end());
    return ok_status();
  };
  std::thread other([&] { had[1].status = work(1); });
  had[0].status = work(0);
  other.join();
  ASSERT_TRUE(had[0].status.ok() && had[1].status.ok()) << had[0].status.message() << had[1].status.message();
  EXPECT_EQ(had[0].state.step, 2u);
  EXPECT_EQ(had[1].state, had[0].state);
  EXPECT_EQ(had[1].rate, 0.125);
  EXPECT_EQ(had[1].contents, had[0].contents);
  EXPECT_EQ(had[1].next, had[0].next);
}

/// Whether a worker is gone, which the others may go on without, or is there and disagrees.
TEST_F(AgreementTest, WhoIsSilentIsLost) {
  const auto ends = group::in_process(2, {{group::Fault::Kind::drop, 1, 0, {}}});
  bool lost[2] = {};
  Status said[2];
  const auto work = [&](std::size_t rank) {
    GroupExchange exchange(*ends[rank], *test::shared_device(), {.between_steps = std::chrono::milliseconds(100)});
    Step step = usual_step();
    said[rank] = exchange.begin(step);
    lost[rank] = exchange.has_lost_worker();
    if (rank == 1) ends[1]->leave(said[1]);
  };
  std::thread other([&] { work(1); });
  work(0);
  other.join();
  EXPECT_EQ(said[0].code(), Code::timeout) << said[0].message();
  EXPECT_TRUE(lost[0]);
}

using Words = std::map<std::string, std::string, std::less<>>;

std::vector<Status> agree_all(const std::vector<Words>& words, const std::vector<bool>& newcomers) {
  const auto ends = group::in_process(words.size());
  std::vector<Status> said(words.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < words.size(); ++rank) {
    threads.emplace_back(
        [&, rank] { said[rank] = agree(*ends[rank], words[rank], newcomers[rank], group::kNoDeadline); });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

TEST(Agreement, OtherWordsAreNamedAndNewcomersLeftOut) {
  const Words usual = {{"batch", "8"}, {"model", "a"}}, other = {{"batch", "8"}, {"model", "b"}};
  for (const Status& status : agree_all({usual, usual, usual}, {false, true, false})) EXPECT_TRUE(status.ok());
  for (const Status& status : agree_all({usual, usual, other}, {false, false, false})) {
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.message().find("another model"), std::string::npos) << status.message();
  }
  const auto one = agree_all({usual, usual, other}, {false, false, true});
  EXPECT_EQ(one[0].code(), Code::io_error) << "the others meet again without it";
  EXPECT_EQ(one[1].code(), Code::io_error);
  EXPECT_EQ(one[2].code(), Code::invalid_argument);
  for (const Status& status : agree_all({usual, other, other}, {false, false, true})) {
    EXPECT_EQ(status.code(), Code::invalid_argument) << "one that was there before differs as well";
  }
}

/// What another version says first has the same form and another number.
TEST(Agreement, AnotherVersionIsRefused) {
  const auto ends = group::in_process(2);
  struct {
    char magic[8] = {'g', 'r', 'a', 'f', 't', 'g', 'r', 'p'};
    std::uint64_t version = 1'000'000;
    Hash128 words;
    std::uint64_t bytes = 0;
    std::uint64_t newcomer = 0;
  } hello;
  std::thread other([&] {
    Parcels parcels(*ends[1]);
    EXPECT_TRUE(parcels.share(std::as_bytes(std::span(&hello, 1)), group::kNoDeadline).ok());
    // Without a check of versions the words would follow.
    ends[1]->leave(invalid("It is another version."));
  });
  const Status said = agree(*ends[0], {}, false, group::kNoDeadline);
  other.join();
  EXPECT_NE(said.message().find("Worker 1 runs another version of graft"), std::string::npos) << said.message();
}

TEST(Agreement, AllEndAsWorker0Does) {
  for (const bool first : {false, true}) {
    const auto ends = group::in_process(2);
    std::vector<bool> ended(2);
    bool second = false;
    std::thread other([&] { second = end_together(*ends[1], !first, group::kNoDeadline).value(); });
    EXPECT_EQ(end_together(*ends[0], first, group::kNoDeadline).value(), first);
    other.join();
    EXPECT_EQ(second, first);
  }
}

TEST_F(AgreementTest, AParcelThatWasChangedOnItsWayIsRefused) {
  const auto ends = group::in_process(2, {{group::Fault::Kind::corrupt, 1, 1, {}}});
  Status said[2][2];
  const auto work = [&](std::size_t rank) {
    Parcels parcels(*ends[rank]);
    for (Status& status : said[rank]) {
      const std::byte words[16] = {std::byte{3}};
      status = parcels.share(words, group::kNoDeadline);
    }
  };
  std::thread other([&] { work(1); });
  work(0);
  other.join();
  EXPECT_TRUE(said[0][0].ok() && said[1][0].ok() && said[1][1].ok());
  EXPECT_EQ(said[0][1].code(), Code::corrupt);
  EXPECT_NE(said[0][1].message().find("What worker 1 sent to worker 0 was changed"), std::string::npos);
}

#ifndef _WIN32
TEST_F(AgreementTest, TimeInWhichTheProcessWasStoppedIsNoDeadline) {
  using std::chrono::milliseconds;
  const auto ends = group::in_process(2);
  Status said[2];
  const auto work = [&](std::size_t rank, std::chrono::nanoseconds deadline) {
    Parcels parcels(*ends[rank]);
    const std::byte word{1};
    said[rank] = parcels.share(std::span(&word, 1), deadline);
  };
  std::thread other([&] {
    const auto begun = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - begun < milliseconds(1500)) std::this_thread::sleep_for(milliseconds(50));
    std::this_thread::sleep_for(milliseconds(100));
    work(1, group::kNoDeadline);
  });
  const test::Freeze freeze(milliseconds(200), milliseconds(1500));
  work(0, milliseconds(1000));
  other.join();
  EXPECT_TRUE(said[0].ok() && said[1].ok()) << said[0].message() << said[1].message();
}
#endif

}  // namespace
}  // namespace graft::distribute::agreement_test

// Runs of several workers end with the bits of a run of one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>

#include "platform/group/in_process.h"
#include "runtime/distribute/group_exchange.h"
#include "runtime/distribute/start.h"
#include "runtime/train/fit.h"
#include "tests/support/trainer_fixture.h"

namespace graft::distribute::workers_test {
namespace {

using test::Contents;
using test::contents_of;
using test::sgd;
using test::shared_device;
using test::tiny_cnn;
using test::tiny_data;
using test::tiny_mlp;
using test::TinyData;
using test::TinyModel;

constexpr std::size_t kMostWorkers = 5;

/// A context of its own for each worker: kept, since a software driver compiles kernels anew for each.
gpu::Device& device_of(std::size_t rank) {
  static std::vector<std::unique_ptr<gpu::Device>> devices;
  while (devices.size() <= rank) devices.push_back(test::test_device().value());
  return *devices[rank];
}

struct Job {
  TinyModel model;
  TinyData data;
  train::TrainOptions options;
  std::uint64_t steps = 6;
  std::uint64_t piece = 1 << 20;
  std::optional<std::size_t> damaged;  ///< a bit of this worker's parameters is changed after the second step
};

/// What a run leaves and says.
struct Outcome {
  Status status;
  Contents contents;
  std::vector<train::StepResult> results;
};

Outcome train(const Job& run, gpu::Device& device, GroupExchange* exchange, group::Group* heals_in = nullptr) {
  Outcome out;
  const auto attempt = [&]() -> Status {
    train::TrainerOptions trainer_options;
    trainer_options.request.evaluation = false;
    trainer_options.request.samples = run.data.samples;
    trainer_options.request.slots = exchange != nullptr;
    trainer_options.exchange = exchange;
    GRAFT_TRY_ASSIGN(const auto trainer, train::Trainer::create(device, run.model.graph, run.model.weight_of(),
                                                                run.options, run.data.fields, trainer_options));
    EXPECT_EQ(trainer->device_bytes(), trainer->plan().memory().total());
    const auto source = run.data.source();
    data::LoaderOptions order{.batch = static_cast<std::uint64_t>(run.options.batch), .seed = 9};
    if (exchange != nullptr) {
      order.wanted = [&](std::uint64_t samples) {
        return exchange->share().of_samples(static_cast<std::uint64_t>(trainer->plan().micro_batch), samples);
      };
    }
    GRAFT_TRY_ASSIGN(const auto loader, data::Loader::create(*source, order));
    train::FitOptions fit_options;
    fit_options.steps = run.steps;
    fit_options.on_step = [&](const train::StepResult& result) {
      out.results.push_back(result);
      const bool hit = exchange != nullptr && run.damaged == exchange->share().rank && trainer->state().step == 2;
      if (!hit) return ok_status();
      std::vector<std::byte> bytes(3 * sizeof(float));
      GRAFT_TRY(trainer->read("fc2.bias", bytes));
      bytes[4] ^= std::byte{1};
      return trainer->write("fc2.bias", bytes);
    };
    data::Cursor place = loader->cursor();
    if (heals_in != nullptr) {
      fit_options.go_on = [&](const Status& why) -> Status {
        if (!exchange->differs()) return why;
        if (trainer->state().step > 0) place = trainer->state().cursor;
        GRAFT_TRY(loader->restore(place));
        return share_state(*heals_in, *trainer, loader.get(), group::kNoDeadline);
      };
    }
    const Status fitted = detail::to_status(train::fit(*trainer, *loader, fit_options));
    out.contents = contents_of(*trainer);
    return fitted;
  };
  out.status = attempt();
  if (exchange != nullptr) exchange->leave(out.status);
  return out;
}

std::vector<Outcome> train_together(const Job& run, std::size_t workers, std::vector<group::Fault> faults = {},
                                    std::chrono::nanoseconds deadline = group::kNoDeadline, bool heals = false) {
  const auto ends = group::in_process(workers, std::move(faults));
  std::vector<Outcome> outcomes(workers);
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < workers; ++rank) {
    gpu::Device& device = device_of(rank);
    threads.emplace_back([&, rank] {
      GroupExchange exchange(*ends[rank], device, {deadline, deadline, run.piece});
      outcomes[rank] = train(run, device, &exchange, heals ? ends[rank].get() : nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

bool same_metrics(const train::StepResult& a, const train::StepResult& b) {
  return a.metrics == b.metrics && a.loss_scale == b.loss_scale && a.skipped_steps == b.skipped_steps &&
         a.gradient_norm == b.gradient_norm;
}

class WorkersTest : public test::TrainerTest {
 protected:
  static void expect_as_one(const Job& run, const std::vector<std::size_t>& numbers) {
    const Outcome one = train(run, *shared_device(), nullptr);
    ASSERT_TRUE(one.status.ok()) << one.status.message();
    ASSERT_EQ(one.results.size(), run.steps);
    for (const std::size_t workers : numbers) {
      SCOPED_TRACE(cat(workers, " workers"));
      const std::vector<Outcome> outcomes = train_together(run, workers);
      for (const Outcome& outcome : outcomes) {
        ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
        for (const auto& [name, values] : one.contents) {
          // By bytes: the sign of a zero counts.
          const std::vector<float>& its = outcome.contents.at(name);
          ASSERT_EQ(its.size(), values.size());
          EXPECT_EQ(std::memcmp(its.data(), values.data(), values.size() * sizeof(float)), 0) << name;
        }
        ASSERT_EQ(outcome.results.size(), run.steps);
        for (std::size_t i = 0; i < run.steps; ++i) EXPECT_TRUE(same_metrics(outcome.results[i], one.results[i])) << i;
      }
    }
  }
};

TEST_F(WorkersTest, EndWithTheBitsOfOne) {
  Job run{tiny_mlp(5, 7, 3), tiny_data(21, {5}, 3), {}};
  run.options.batch = 8;
  run.options.micro_batch = 3;  // three slots, of which the last is short; the epoch's last batch has two
  expect_as_one(run, {1, 2, 3, 4, 5});
  run.piece = 10;  // several pieces, the last of another size
  expect_as_one(run, {3});
}

TEST_F(WorkersTest, MoveRunningStatisticsInTheOrderOfSlots) {
  Job run{tiny_cnn(4, 0.5), tiny_data(21, {1, 8, 8}, 4), {}};
  run.options.batch = 8;
  run.options.micro_batch = 2;
  run.options.seed = 5;
  expect_as_one(run, {2, 4, 5});
}

TEST_F(WorkersTest, ClipByTheNormOfAllGradients) {
  Job run{tiny_mlp(5, 7, 3), tiny_data(16, {5}, 3), sgd(0.5, 8)};
  run.options.micro_batch = 2;
  run.options.clip_norm = 0.05;
  expect_as_one(run, {3});
}

TEST_F(WorkersTest, CountLabelsOverTheWholeBatch) {
  Job run{tiny_mlp(5, 7, 3), tiny_data(24, {5}, 3), sgd(0.5, 8)};
  run.options.micro_batch = 2;
  for (std::size_t i = 0; i < run.data.labels.size(); i += i % 5 + 1) run.data.labels[i] = -100;
  expect_as_one(run, {2, 4});
}

TEST_F(WorkersTest, LeaveOutTheSameStepsThatOverflow) {
  Job run{tiny_cnn(3, 0.4), tiny_data(24, {1, 8, 8}, 3), sgd(0.1, 8)};
  run.options.micro_batch = 2;
  run.options.precision = DType::f16;
  run.options.loss_scaling = train::LossScaling{.initial = 0x1p40, .backoff_factor = 0x1p-8, .growth_interval = 2};
  run.steps = 9;
  expect_as_one(run, {3});
  EXPECT_GT(train(run, *shared_device(), nullptr).results.back().skipped_steps, 0u);
}

TEST_F(WorkersTest, OneSlotIsOneWorkersStep) {
  Job run{tiny_mlp(5, 7, 3), tiny_data(20, {5}, 3), {}};
  run.options.batch = 8;
  const Outcome one = train(run, *shared_device(), nullptr);
  for (const Outcome& outcome : train_together(run, 3)) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    for (const auto& [name, values] : one.contents) EXPECT_EQ(outcome.contents.at(name), values) << name;
  }
}

TEST_F(WorkersTest, ReadTheirOwnSamplesOnly) {
  Job run{tiny_mlp(5, 7, 3), tiny_data(16, {5}, 3), sgd(0.5, 8)};
  run.options.micro_batch = 4;
  std::vector<std::vector<std::uint64_t>> read(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const auto source = data::from_generator(
                            run.data.fields,
                            [&](std::uint64_t index, data::SampleOut) -> Result<bool> {
                              read[rank].push_back(index);
                              return true;
                            },
                            16)
                            .value();
    data::LoaderOptions order{.batch = 8, .seed = 4, .epochs = 1, .prefetch = 0};
    order.wanted = [&](std::uint64_t samples) { return std::pair(rank * samples / 2, samples / 2); };
    const auto loader = data::Loader::create(*source, order).value();
    while (*loader->next() != nullptr) continue;
  }
  std::vector<std::uint64_t> all = read[0];
  all.insert(all.end(), read[1].begin(), read[1].end());
  std::ranges::sort(all);
  ASSERT_EQ(all.size(), 16u);
  for (std::uint64_t i = 0; i < 16; ++i) EXPECT_EQ(all[i], i);
}

TEST_F(WorkersTest, AFailureOfOneEndsAllAndChangesNothing) {
  Job run{tiny_mlp(5, 7, 3), tiny_data(16, {5}, 3), sgd(0.5, 8)};
  run.options.micro_batch = 4;
  Job shorter = run;
  shorter.steps = 2;
  const Outcome two = train(shorter, *shared_device(), nullptr);
  // Four exchanges in a step: the third step's third.
  for (const auto kind : {group::Fault::Kind::drop, group::Fault::Kind::corrupt, group::Fault::Kind::disconnect}) {
    SCOPED_TRACE(static_cast<int>(kind));
    const auto outcomes = train_together(run, 2, {{kind, 1, 10, {}}}, std::chrono::milliseconds(500));
    for (const Outcome& outcome : outcomes) {
      EXPECT_FALSE(outcome.status.ok());
      EXPECT_NE(outcome.status.message().find("orker"), std::string::npos) << outcome.status.message();
      EXPECT_EQ(outcome.contents, two.contents);
      EXPECT_EQ(outcome.results.size(), 2u);
    }
  }
  const auto late = train_together(run, 2, {{group::Fault::Kind::delay, 0, 10, std::chrono::milliseconds(50)}});
  EXPECT_TRUE(late[0].status.ok() && late[1].status.ok());
}

TEST_F(WorkersTest, ABadSampleIsNamedByWhoeverReadsIt) {
  Job run{tiny_mlp(5, 7, 3), tiny_data(16, {5}, 3), sgd(0.5, 8)};
  run.options.micro_batch = 4;
  run.data.x[5 * 11] = std::nanf("");
  const auto outcomes = train_together(run, 2);
  std::string named;
  for (const Outcome& outcome : outcomes) {
    ASSERT_FALSE(outcome.status.ok());
    named += outcome.status.message();
  }
  EXPECT_NE(named.find("sample 11"), std::string::npos) << named;
  EXPECT_NE(named.find("stopped"), std::string::npos) << named;
}

TEST_F(WorkersTest, AChangedBitIsFoundByTheNextStep) {
  Job run{tiny_mlp(5, 7, 3), tiny_data(24, {5}, 3), sgd(0.5, 8)};
  run.options.micro_batch = 2;
  for (const std::size_t rank : {std::size_t{2}, std::size_t{0}}) {  // most are right, whoever it is
    run.damaged = rank;
    for (const Outcome& outcome : train_together(run, 3)) {
      EXPECT_EQ(outcome.status.code(), Code::corrupt);
      const std::string named =
          cat("Before step 3 the parameters of these workers are not those of the others: ", rank, ".");
      EXPECT_NE(outcome.status.message().find(named), std::string::npos) << outcome.status.message();
      EXPECT_EQ(outcome.results.size(), 2u);
    }
  }
}

TEST_F(WorkersTest, WhoeverDiffersIsBroughtUpToDate) {
  Job run{tiny_mlp(5, 7, 3), tiny_data(24, {5}, 3), sgd(0.5, 8)};
  run.options.micro_batch = 2;
  const Outcome one = train(run, *shared_device(), nullptr);
  run.damaged = 1;
  for (const Outcome& outcome : train_together(run, 2, {}, group::kNoDeadline, true)) {  // worker 0 counts among two
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    EXPECT_EQ(outcome.contents, one.contents);
    EXPECT_EQ(outcome.results.size(), run.steps);
  }
}

TEST_F(WorkersTest, WhoDiffersIsRefused) {
  const Job run{tiny_mlp(5, 7, 3), tiny_data(16, {5}, 3), sgd(0.5, 8)};
  Job other = run;
  other.options.micro_batch = 2;
  const auto ends = group::in_process(2);
  Outcome outcomes[2];
  std::thread second([&] {
    GroupExchange exchange(*ends[1], device_of(1));
    outcomes[1] = train(other, device_of(1), &exchange);
  });
  GroupExchange exchange(*ends[0], device_of(0));
  outcomes[0] = train(run, device_of(0), &exchange);
  second.join();
  for (const Outcome& outcome : outcomes) {
    EXPECT_NE(outcome.status.message().find("micro-batches in a step"), std::string::npos) << outcome.status.message();
  }
}

}  // namespace
}  // namespace graft::distribute::workers_test

// ctest: middle
// Runs of several workers end with the bits of a run of one.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>

#include "platform/group/in_process.h"
#include "runtime/core/build.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/distribute/group_exchange.h"
#include "runtime/distribute/start.h"
#include "runtime/train/run/fit.h"
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
  bool overlaps = false;  ///< and shares follow what was measured
  bool shards = false;    ///< of the optimizer's state
  bool rehashes = false;  ///< the hash that comes with each step is compared with one of its own
  bool captures = false;  ///< worker 0 keeps what it captured after the first step as long as it may
  Wire wire = Wire::f32;
  std::optional<std::size_t> damaged;  ///< a bit of this worker's parameters is changed after the second step
};

/// What a run leaves and says.
struct Outcome {
  Status status;
  Contents contents;
  std::vector<train::StepResult> results;
  std::uint64_t optimizer_bytes = 0;
  std::vector<std::byte> captured;       ///< after the first step
  std::vector<std::byte> captured_last;  ///< the same memory when the trainer says that it goes
};

std::vector<std::byte> bytes_of(const std::vector<Capture::Entry>& captured) {
  std::vector<std::byte> out;
  for (const Capture::Entry& entry : captured) out.insert(out.end(), entry.bytes.begin(), entry.bytes.end());
  return out;
}

/// As a thread does that writes a snapshot beside the steps. The state is brought together in each step.
Status capture_once(train::Trainer& trainer, Outcome& out) {
  if (trainer.state().step != 1) return ok_status();
  GRAFT_TRY(trainer.capture());
  out.captured = bytes_of(trainer.captured());
  trainer.set_before_invalidation([&] {
    if (out.captured_last.empty()) out.captured_last = bytes_of(trainer.captured());
  });
  return ok_status();
}

/// The hash of the state that came with a step's update, and the one that is computed by itself once the state was
/// written. `before`: of the step before.
Status compare_hashes(train::Trainer& trainer, std::uint64_t& before) {
  GRAFT_TRY_ASSIGN(const std::uint64_t known, trainer.state_hash());
  const train::NamedTensor first = trainer.named_parameters().front();
  std::vector<std::byte> bytes(first.bytes);
  GRAFT_TRY(trainer.read(first.name, bytes));
  GRAFT_TRY(trainer.write(first.name, bytes));
  GRAFT_TRY_ASSIGN(const std::uint64_t anew, trainer.state_hash());
  EXPECT_EQ(known, anew);
  EXPECT_NE(known, before);
  before = known;
  return ok_status();
}

Outcome train(const Job& run, gpu::Device& device, GroupExchange* exchange, group::Group* heals_in = nullptr) {
  Outcome out;
  const auto attempt = [&]() -> Status {
    train::TrainerOptions trainer_options;
    trainer_options.request.evaluation = false;
    trainer_options.request.samples = run.data.samples;
    trainer_options.request.slots = exchange != nullptr;
    trainer_options.request.checkpoints = run.captures;
    trainer_options.exchange = exchange;
    if (run.shards && exchange != nullptr) {
      const train::Share share = exchange->share();
      trainer_options.request.shard = {static_cast<std::uint32_t>(share.rank),
                                       static_cast<std::uint32_t>(share.workers)};
    }
    GRAFT_TRY_ASSIGN(const auto trainer, train::Trainer::create(device, run.model.graph, run.model.weight_of(),
                                                                run.options, run.data.fields, trainer_options));
    EXPECT_EQ(trainer->device_bytes(), trainer->plan().memory().total());
    const auto source = run.data.source();
    data::LoaderOptions order{.batch = static_cast<std::uint64_t>(run.options.batch), .seed = 9};
    if (run.overlaps) order.prefetch = 0;  // shares may move
    if (exchange != nullptr) {
      order.wanted = [&](std::uint64_t samples) {
        return exchange->share().of_samples(static_cast<std::uint64_t>(trainer->plan().micro_batch), samples);
      };
    }
    GRAFT_TRY_ASSIGN(const auto loader, data::Loader::create(*source, order));
    const bool captures = run.captures && exchange != nullptr && exchange->share().rank == 0;
    if (captures) trainer->set_wants_whole_state([] { return true; });
    train::FitOptions fit_options;
    fit_options.steps = run.steps;
    const bool rehashes = run.rehashes && exchange != nullptr;
    const auto ports = trainer->plan().update ? trainer->plan().update->outputs : std::vector<PlanPort>();
    EXPECT_EQ(std::ranges::count(ports, train::kHashOutput, &PlanPort::name), exchange != nullptr && !run.shards);
    std::uint64_t hash = 0;
    fit_options.on_step = [&](const train::StepResult& result) {
      out.results.push_back(result);
      if (rehashes) GRAFT_TRY(compare_hashes(*trainer, hash));
      if (captures) GRAFT_TRY(capture_once(*trainer, out));
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
    Status fitted = detail::to_status(train::fit(*trainer, *loader, fit_options));
    if (fitted.ok()) fitted = trainer->gather_state();
    out.optimizer_bytes = trainer->plan().memory()[MemoryClass::optimizer];
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
      GroupExchange exchange(*ends[rank], device,
                             {deadline, deadline, run.piece, run.wire, run.overlaps, run.overlaps});
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
          if (run.shards && &outcome != outcomes.data() && its.empty()) continue;  // it is with another
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
  run.overlaps = true;
  expect_as_one(run, {3});
}

/// Two blocks with batch norm around what they are added to, and a stride.
TinyModel tiny_resnet() {
  TinyModel model;
  Builder b(model.graph);
  const auto layer = [&](ValueId x, const std::string& name, std::int64_t from, std::int64_t to, std::int64_t stride) {
    const ValueId w = model.weight(name + ".weight", {to, 3, 3, from}, 0.4);
    const ValueId bias = model.weight(name + ".bias", {to}, 0.2);
    const ValueId scale = model.filled(name + ".bn.weight", {to}, 1);
    const ValueId shift = model.weight(name + ".bn.bias", {to}, 0.3);
    const ValueId mean = model.filled(name + ".bn.running_mean", {to}, 0, ValueKind::state);
    const ValueId var = model.filled(name + ".bn.running_var", {to}, 1, ValueKind::state);
    const Attrs window = {{"strides", Ints{stride, stride}},
                          {"pads", Ints{1, 1, 1, 1}},
                          {"dilations", Ints{1, 1}},
                          {"groups", std::int64_t{1}}};
    return b.node(Op::batch_norm, {b.node(Op::conv, {x, w, bias}, window), scale, shift, mean, var},
                  {{"epsilon", 1e-5}});
  };
  const Dim batch = Dim::symbol("batch");
  ValueId h = b.reshape(model.input("image", {1, 8, 8}), Shape{batch, 8, 8, 1});
  h = b.node(Op::relu, {layer(h, "stem", 1, 4, 1)});
  for (const char* block : {"block1", "block2"}) {
    const ValueId inner = b.node(Op::relu, {layer(h, cat(block, ".first"), 4, 4, 1)});
    h = b.node(Op::relu, {b.add(layer(inner, cat(block, ".second"), 4, 4, 1), h)});
  }
  h = b.node(Op::relu, {layer(h, "down", 4, 4, 2)});
  const ValueId fc = model.weight("fc.weight", {64, 3}, 0.3);
  model.graph.add_output("y", b.node(Op::matmul, {b.reshape(h, Shape{batch, 64}), fc}));
  return model;
}

TEST_F(WorkersTest, ResidualBlocksWithBatchNorm) {
  Job run{tiny_resnet(), tiny_data(21, {1, 8, 8}, 3), {}};
  run.options.batch = 8;
  run.options.micro_batch = 2;
  run.steps = 3;
  run.rehashes = true;
  expect_as_one(run, {3});
}

TEST_F(WorkersTest, SendSlotsWhileTheNextAreComputed) {
  Job run{tiny_cnn(4, 0.5), tiny_data(21, {1, 8, 8}, 4), {}};
  run.options.batch = 8;
  run.options.micro_batch = 1;  // four or eight slots each: more than are kept
  run.overlaps = true;
  run.steps = 6;
  expect_as_one(run, {2});
}

TEST_F(WorkersTest, ShareTheOptimizersStateOut) {
  Job run{tiny_cnn(4, 0.5), tiny_data(21, {1, 8, 8}, 4), {}};
  run.options.batch = 8;
  run.options.micro_batch = 2;
  run.options.clip_norm = 0.5;
  run.shards = true;
  expect_as_one(run, {2, 3});
  const std::vector<Outcome> three = train_together(run, 3);
  std::uint64_t all = 0;
  for (const Outcome& outcome : three) all += outcome.optimizer_bytes;
  EXPECT_LT(three[0].optimizer_bytes, all);
  run.shards = false;
  EXPECT_EQ(train(run, *shared_device(), nullptr).optimizer_bytes, all);

  run.shards = true;
  run.options.clip_norm = 0;
  run.options.precision = DType::f16;
  run.options.loss_scaling = train::LossScaling{.initial = 0x1p40, .backoff_factor = 0x1p-8, .growth_interval = 2};
  expect_as_one(run, {2});
  run.options.optimizer.ema = 0.9;
  for (const Outcome& outcome : train_together(run, 2)) {
    EXPECT_EQ(outcome.status.code(), Code::unsupported) << outcome.status.message();
  }
}

// A snapshot may still be written from the copy when the state of a later step comes together.
TEST_F(WorkersTest, SayBeforeTheCopyOfTheOptimizersStateChanges) {
  Job run{tiny_mlp(5, 7, 3), tiny_data(21, {5}, 3), {}};
  run.options.batch = 8;
  run.options.micro_batch = 3;
  run.options.optimizer.kind = train::OptimizerKind::adamw;
  run.shards = run.captures = true;
  run.steps = 3;
  const std::vector<Outcome> outcomes = train_together(run, 2);
  for (const Outcome& outcome : outcomes) ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  ASSERT_FALSE(outcomes[0].captured.empty());
  EXPECT_EQ(outcomes[0].captured_last, outcomes[0].captured);
}

TEST_F(WorkersTest, SendLessWhereLessIsAskedFor) {
  Job run{tiny_cnn(4, 0.5), tiny_data(24, {1, 8, 8}, 4), sgd(0.1, 8)};
  run.options.micro_batch = 2;
  run.wire = Wire::bf16;
  run.piece = 50;
  const Contents one = train(run, *shared_device(), nullptr).contents;
  const Contents two = train_together(run, 2)[1].contents, three = train_together(run, 3)[0].contents;
  EXPECT_EQ(two, three);  // rounding is by slot, whoever computed it
  EXPECT_NE(two, one);
  for (const auto& [name, values] : one) {
    for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(two.at(name)[i], values[i], 0.02) << name;
  }
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
  // Four exchanges in a step: to begin it, gradients, gradients and the sums of those before, the last sums.
  constexpr std::uint64_t kElements = 5 * 7 + 7 + 7 * 3 + 3;
  run.piece = kElements / 2 + 1;
  constexpr std::size_t kThird = 8, kGradients = kThird + 1, kSums = kThird + 2, kLast = kThird + 3;
  using Kind = group::Fault::Kind;
  const std::pair<Kind, std::size_t> faults[] = {{Kind::drop, kGradients},       {Kind::corrupt, kGradients},
                                                 {Kind::disconnect, kGradients}, {Kind::drop, kSums},
                                                 {Kind::corrupt, kSums},         {Kind::drop, kLast}};
  for (const auto& [kind, call] : faults) {
    SCOPED_TRACE(cat(static_cast<int>(kind), " at ", call));
    // Only what is dropped is waited for; a slow machine must not be late before.
    const auto outcomes = train_together(run, 2, {{kind, 1, call, {}}}, std::chrono::seconds(2));
    for (const Outcome& outcome : outcomes) {
      EXPECT_FALSE(outcome.status.ok());
      EXPECT_NE(outcome.status.message().find("orker"), std::string::npos) << outcome.status.message();
      EXPECT_EQ(outcome.contents, two.contents);
      EXPECT_EQ(outcome.results.size(), 2u);
    }
  }
  const auto late = train_together(run, 2, {{Kind::delay, 0, kGradients, std::chrono::milliseconds(50)}});
  EXPECT_TRUE(late[0].status.ok() && late[1].status.ok());
  // Who alone gets the last sums changed does not apply them; the other hears of it before its next step.
  const auto last = train_together(run, 2, {{Kind::corrupt, 1, kLast, {}}});
  EXPECT_EQ(last[0].status.code(), Code::corrupt);
  EXPECT_EQ(last[0].contents, two.contents);
  EXPECT_EQ(last[1].status.code(), Code::corrupt);
  EXPECT_NE(last[1].status.message().find("Worker 0 stopped"), std::string::npos) << last[1].status.message();
  EXPECT_EQ(last[1].results.size(), 3u);
}

/// The forward pass has moved running statistics by then.
TEST_F(WorkersTest, AStepThatFailsMovesNoRunningStatistics) {
  Job run{tiny_cnn(4, 0.5), tiny_data(16, {1, 8, 8}, 4), sgd(0.1, 8)};
  run.options.micro_batch = 4;
  Job shorter = run;
  shorter.steps = 2;
  const Outcome two = train(shorter, *shared_device(), nullptr);
  constexpr std::size_t kGradientsOfThird = 7;  // three exchanges in a step: to begin it, gradients, sums
  for (const Outcome& outcome : train_together(run, 2, {{group::Fault::Kind::corrupt, 1, kGradientsOfThird, {}}})) {
    EXPECT_FALSE(outcome.status.ok());
    EXPECT_EQ(outcome.results.size(), 2u);
    EXPECT_EQ(outcome.contents, two.contents);
  }
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

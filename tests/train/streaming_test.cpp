// ctest: slow (a dozen trainers of a small language model)
// Frozen weights that the budget has no room for are streamed: the same bits, planned to the byte.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>

#include "runtime/core/op_id.gen.h"
#include "runtime/language/generator.h"
#include "runtime/lora/adapter.h"
#include "runtime/plan/hazards.h"
#include "runtime/plan/stream_choice.h"
#include "runtime/run_state/training.h"
#include "runtime/session/session.h"
#include "tests/support/edited_device.h"
#include "tests/support/heap_count.h"
#include "tests/support/letter_model.h"
#include "tests/support/plan_checks.h"
#include "tests/support/tiny_decoder.h"
#include "tests/support/trainer_fixture.h"

namespace graft::train::streaming_test {
namespace {

using namespace test;

constexpr std::int64_t kLength = 8;
constexpr std::uint64_t kSteps = 20;

struct Outcome {
  Contents contents;
  MemoryByClass memory;
  std::vector<std::string> reasons;
  std::size_t streamed = 0;
  std::size_t recomputed = 0;
  std::uint64_t stretches = 0;
};

class Streaming : public TrainerTest {
 protected:
  Streaming() : base_(plain_model(tiny_llama({.width = 128, .inner = 256, .layers = 6, .vocabulary = 64}))) {
    auto model = with_lora(base_, parse_lora("r=2,alpha=4,dropout=0.1,targets=q_proj|v_proj").value(), 3);
    EXPECT_TRUE(model.ok()) << model.status().message();
    model_ = std::move(model).value();
    options_ = sgd(0.1, 2);
    options_.bindings = {{"seq", kLength}};
  }

  std::uint64_t frozen_bytes() const {
    std::uint64_t bytes = 0;
    for (const Value& value : model_.graph.values()) {
      if (value.kind == ValueKind::constant) bytes += device_bytes(value);
    }
    return bytes;
  }

  PlanRequest request(std::uint64_t budget, bool shrink = true) const {
    PlanRequest request;
    request.samples = data_.samples;
    request.plan.budget = budget;
    request.shrink_micro_batch = shrink;
    return request;
  }

  std::uint64_t smallest(const gpu::Target& target, bool shrink) const {
    const auto none = plan_training(model_.graph, options_, request(1, shrink), target);
    const std::string message = none.ok() ? "" : none.status().message();
    const std::size_t at = message.find("works is ");
    EXPECT_NE(at, std::string::npos) << message;
    return at == std::string::npos ? 0 : std::stoull(message.substr(at + 9));
  }

  static std::uint64_t stretches(const Plan& plan) {
    std::set<std::uint32_t> first;
    for (const Refill& refill : plan.refills) first.insert(refill.first_step);
    return first.size();
  }

  Outcome train(gpu::Device& device, std::uint64_t budget) {
    TrainerOptions trainer_options;
    trainer_options.request = request(budget, false);
    auto made = create_trainer(device, model_, options_, data_.fields, trainer_options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (!made.ok()) return {};
    Trainer& trainer = **made;
    EXPECT_EQ(trainer.device_bytes(), trainer.plan().memory().total()) << "planned equals measured";
    for (const Plan* plan : trainer.plan().plans()) {
      EXPECT_TRUE(check_hazards(*plan).ok()) << check_hazards(*plan).message();
      EXPECT_TRUE(check_memory(*plan).ok()) << check_memory(*plan).message();
    }
    run_steps(trainer);
    const auto source = data_.source();
    EXPECT_TRUE(trainer.evaluate(*source).ok());
    const Plan& step = trainer.plan().training.front().plan;
    return {contents_of(trainer),          trainer.plan().memory(),
            trainer.plan().choice.reasons, trainer.plan().residents.streaming().names.size(),
            step.recomputed.size(),        stretches(step)};
  }

  void run_steps(Trainer& trainer) {
    const auto source = data_.source();
    auto loader = data::Loader::create(*source, {.batch = 2, .shuffle = false}).value();
    std::uint64_t heap = 0;
    bool good = true;
    for (std::uint64_t i = 0; i < kSteps; ++i) {
      if (i == 4) heap = heap_allocations();
      good = good && trainer.train_step(**loader->next()).ok();
    }
    heap = heap_allocations() - heap;
    EXPECT_TRUE(good);
    // Validation layers allocate with operator new; ctest runs this file without them.
    if (test_device_options().instance.validation == nullptr) {
      EXPECT_EQ(heap, 0u) << "a step allocates nothing";
    }
  }

  Model base_;
  Model model_;
  TokenData data_ = token_data(2 * kSteps, kLength, 64);  // one epoch: a new one allocates its order
  TrainOptions options_;
};

TEST_F(Streaming, AModelOfFourTimesTheBudgetTrainsToTheSameAdapter) {
  const Outcome free = train(*shared_device(), 0);
  EXPECT_EQ(free.streamed, 0u);
  const std::uint64_t budget = frozen_bytes() / 4;
  const Outcome tight = train(*shared_device(), budget);
  EXPECT_LE(tight.memory.total(), budget);
  EXPECT_GT(tight.streamed, 30u);
  EXPECT_GT(tight.stretches, 10u);
  EXPECT_TRUE(tight.contents == free.contents) << "frozen weights included, which are read where they lie";
  const auto says = [](const std::string& reason) { return reason.find("are streamed from") != std::string::npos; };
  EXPECT_EQ(std::count_if(tight.reasons.begin(), tight.reasons.end(), says), 1);
}

TEST_F(Streaming, EveryTenthOfTheRangeGivesTheSameBits) {
  const Outcome free = train(*shared_device(), 0);
  const std::uint64_t least = smallest(shared_device()->target(), false);
  const std::uint64_t whole = free.memory.total();
  std::size_t most = ~std::size_t{0};
  for (std::uint64_t tenth = 0; tenth < 10; ++tenth) {
    const std::uint64_t budget = least + (whole - least) * tenth / 10;
    const Outcome tight = train(*shared_device(), budget);
    EXPECT_LE(tight.memory.total(), budget);
    // A ring in staging makes streaming dearer: a small budget may do without, by computing again.
    if (!stages_streams(shared_device()->caps())) {
      EXPECT_LE(tight.streamed, most) << "a larger budget streams no more";
    }
    most = tight.streamed;
    EXPECT_TRUE(tight.contents == free.contents) << "tenth " << tenth;
  }
}

TEST_F(Streaming, ADeviceWhoseMemoryTheHostDoesNotSeeCopiesFromStaging) {
  const Outcome free = train(*shared_device(), 0);
  EditedDevice apart(*shared_device());
  apart.edit().caps.unified_memory = false;
  const Outcome tight = train(apart, frozen_bytes() / 4);
  EXPECT_LE(tight.memory.total(), frozen_bytes() / 4);
  EXPECT_TRUE(tight.contents == free.contents);
}

TEST_F(Streaming, ExactlyTheSmallestBudgetWorks) {
  for (const bool unified : {true, false}) {
    gpu::Target target = shared_device()->target();
    target.caps.unified_memory = unified;
    const std::uint64_t least = smallest(target, true);
    const auto enough = plan_training(model_.graph, options_, request(least), target);
    ASSERT_TRUE(enough.ok()) << enough.status().message();
    EXPECT_LE(enough->memory().total(), least);
    const auto less = plan_training(model_.graph, options_, request(least - 1), target);
    ASSERT_FALSE(less.ok());
    EXPECT_NE(less.status().message().find(std::to_string(least)), std::string::npos) << less.status().message();
    PlanRequest without = request(least);
    without.plan.stream = false;
    EXPECT_FALSE(plan_training(model_.graph, options_, without, target).ok());
  }
}

TEST_F(Streaming, InferenceAndGenerationGiveTheSameBits) {
  SessionOptions options;
  options.bindings = {{"batch", 2}, {"seq", kLength}};
  const auto logits = [&](std::uint64_t budget) {
    options.plan.budget = budget;
    const auto session = Session::create(*shared_device(), base_, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    if (!session.ok()) return std::vector<std::byte>();
    EXPECT_EQ((*session)->streaming().empty(), budget == 0);
    EXPECT_LE((*session)->plan().memory.total(), budget != 0 ? budget : ~std::uint64_t{0});
    const std::span<const std::int32_t> tokens(data_.tokens.data(), 2 * kLength);
    EXPECT_TRUE((*session)->set_input("tokens", std::as_bytes(tokens)).ok());
    for (int i = 0; i < 2; ++i) EXPECT_TRUE((*session)->run().ok());
    const auto bytes = (*session)->output("logits");
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const auto free = logits(0);
  ASSERT_FALSE(free.empty());
  EXPECT_EQ(logits(frozen_bytes() / 4), free);

  const Model letters = letter_model({});
  const auto text = [&](std::uint64_t budget, MemoryByClass* need) {
    GeneratorOptions wanted;
    wanted.plan.budget = budget;
    const auto generator = Generator::create(*shared_device(), letters, wanted);
    EXPECT_TRUE(generator.ok()) << generator.status().message();
    if (!generator.ok()) return std::string();
    *need = (*generator)->memory();
    EXPECT_EQ((*generator)->streaming().empty(), budget == 0);
    const std::vector<text::TokenId> prompt = {3, 1, 4, 1, 5};
    return (*generator)->generate(prompt, {.max_tokens = 12})->text;
  };
  MemoryByClass whole;
  MemoryByClass tight;
  const std::string said = text(0, &whole);
  const std::uint64_t budget = whole.total() - whole[MemoryClass::parameters] / 2;
  EXPECT_EQ(text(budget, &tight), said);
  EXPECT_LE(tight.total(), budget);
}

TEST_F(Streaming, ALargeTableIsGatheredPieceByPiece) {
  GraphMaker g;
  const ValueId table = g.value("table", {5000, 512}, ValueKind::constant);
  const ValueId indices = g.value("indices", {7}, ValueKind::input, DType::i32);
  g.output("rows", g.add(Op::gather, {table, indices}, {{"axis", std::int64_t{0}}}));
  const gpu::Target target = shared_device()->target();
  const Graph* const graphs[] = {&g.graph};
  const auto residents = residents_within(target, graphs, {.budget = std::uint64_t{9} << 20});
  ASSERT_TRUE(residents.ok()) << residents.status().message();
  const auto plan = make_plan(g.graph, target, *residents, {});
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  // Two pieces of 4 MiB, and as many in staging where the host does not see the device's memory.
  const std::uint64_t most = stages_streams(target.caps) ? 17 : 9;
  EXPECT_LE(plan->memory.total(), most << 20) << "of a table of 9.8 MiB";
  EXPECT_EQ(plan->refills.size(), 2u);
  EXPECT_TRUE(check_memory(*plan).ok()) << check_memory(*plan).message();
  const Plan* const plans[] = {&*plan};
  const auto memory = Memory::create(*shared_device(), *residents, plans);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  std::vector<float> numbers(5000 * 512);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  ASSERT_TRUE((*memory)->provide("table", std::as_bytes(std::span(numbers))).ok());
  const auto program = Program::create(**memory, *plan);
  ASSERT_TRUE(program.ok()) << program.status().message();
  const std::int32_t wanted[7] = {0, 4999, 17, 4097, 4095, -1, 2500};
  const Feed feeds[] = {{"indices", std::as_bytes(std::span(wanted))}};
  ASSERT_TRUE((*program)->run(feeds, {}).ok());
  const auto rows = (*program)->output("rows");
  for (std::size_t i = 0; i < 7; ++i) {
    const std::size_t row = wanted[i] < 0 ? 4999 : static_cast<std::size_t>(wanted[i]);
    EXPECT_EQ(std::memcmp(rows.data() + i * 2048, numbers.data() + row * 512, 2048), 0) << "row " << row;
  }
}

TEST_F(Streaming, AWeightThatTheGraphChangesIsRefused) {
  GraphMaker g;
  const ValueId w = g.state("w", {64});
  g.act(Op::accumulate, {w, g.input("x", {64})});
  ResidentOptions options;
  options.streaming.names = {"w"};
  Residents residents(shared_device()->caps(), options);
  ASSERT_TRUE(residents.add(g.graph).ok());
  const auto plan = make_plan(g.graph, shared_device()->target(), residents);
  ASSERT_FALSE(plan.ok());
  EXPECT_NE(plan.status().message().find("streamed"), std::string::npos) << plan.status().message();
}

}  // namespace
}  // namespace graft::train::streaming_test

// ctest: slow (a dozen trainers and sessions of a small language model)
// Weights that nobody trains are kept in 16 bits where training or inference is: half the bytes, planned to the byte.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "runtime/core/op_id.gen.h"
#include "runtime/language/generator.h"
#include "runtime/lora/adapter.h"
#include "runtime/run_state/training.h"
#include "runtime/session/session.h"
#include "tests/support/letter_model.h"
#include "tests/support/tiny_decoder.h"
#include "tests/support/trainer_fixture.h"

namespace graft::train::frozen_precision_test {
namespace {

using namespace test;

constexpr std::int64_t kLength = 8;

class FrozenPrecision : public TrainerTest {
 protected:
  FrozenPrecision() : base_(plain_model(tiny_llama({.width = 64, .inner = 128, .layers = 2, .vocabulary = 64}))) {
    auto model = with_lora(base_, parse_lora("r=4,alpha=8,targets=q_proj|v_proj").value(), 3);
    EXPECT_TRUE(model.ok()) << model.status().message();
    model_ = std::move(model).value();
  }

  static TrainOptions options(DType precision) {
    TrainOptions options;
    options.batch = 4;
    options.optimizer.learning_rate = 2e-2;
    options.bindings = {{"seq", kLength}};
    options.precision = precision;
    return options;
  }

  std::unique_ptr<Trainer> trainer(const Model& model, const TrainOptions& options, std::uint64_t budget = 0) {
    TrainerOptions trainer_options;
    trainer_options.request.samples = data_.samples;
    trainer_options.request.plan.budget = budget;
    trainer_options.request.shrink_micro_batch = false;
    auto made = create_trainer(*shared_device(), model, options, data_.fields, trainer_options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (!made.ok()) return nullptr;
    EXPECT_EQ((*made)->device_bytes(), (*made)->plan().memory().total()) << "planned equals measured";
    return std::move(made).value();
  }

  /// Of the base's matrices, all of which are factors of products or tables.
  static std::uint64_t matrices(const Model& model) {
    std::uint64_t elements = 0;
    for (const Value& value : model.graph.values()) {
      const bool weight = value.kind == ValueKind::parameter || value.kind == ValueKind::constant;
      if (weight && value.shape.rank() == 2) elements += value.shape.elements();
    }
    return elements;
  }

  std::vector<float> logits(const Model& model, DType precision, MemoryByClass& memory, std::uint64_t budget = 0) {
    SessionOptions wanted;
    wanted.bindings = {{"batch", 2}, {"seq", kLength}};
    wanted.precision = precision;
    wanted.plan.budget = budget;
    const auto session = Session::create(*shared_device(), model, wanted);
    EXPECT_TRUE(session.ok()) << session.status().message();
    if (!session.ok()) return {};
    memory = (*session)->plan().memory;
    EXPECT_EQ((*session)->streaming().empty(), budget == 0);
    const std::span<const std::int32_t> tokens(data_.tokens.data(), 2 * kLength);
    EXPECT_TRUE((*session)->set_input("tokens", std::as_bytes(tokens)).ok());
    EXPECT_TRUE((*session)->run().ok());
    const auto bytes = (*session)->output("logits");
    std::vector<float> out(bytes.size() / sizeof(float));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }

  static double distance(const std::vector<float>& a, const std::vector<float>& b) {
    double square = 0, norm = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      square += (a[i] - b[i]) * (a[i] - b[i]);
      norm += b[i] * b[i];
    }
    return std::sqrt(square / norm);
  }

  Model base_;
  Model model_;
  TokenData data_ = token_data(32, kLength, 64);
};

TEST_F(FrozenPrecision, AdaptersLearnAsOverF32InHalfTheWeights) {
  constexpr int kSteps = 16;
  std::vector<double> wide;
  std::uint64_t wide_weights = 0;
  for (const DType precision : {DType::f32, DType::f16, DType::bf16}) {
    SCOPED_TRACE(dtype_name(precision));
    const auto made = trainer(model_, options(precision));
    ASSERT_TRUE(made);
    const std::uint64_t weights = made->plan().memory()[MemoryClass::weights];
    std::vector<double> curve;
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (const double loss : losses_of(*made, data_, kSteps / 2, 4)) curve.push_back(loss);
    }
    const auto source = data_.source();
    ASSERT_TRUE(made->evaluate(*source).ok()) << "with the same weights";
    if (precision == DType::f32) {
      wide = curve;
      wide_weights = weights;
      EXPECT_LT(curve.back(), 0.97 * curve.front()) << "it learns";
      continue;
    }
    EXPECT_EQ(wide_weights - weights, 2 * matrices(base_)) << "to the byte: norms' factors alone stay as they are";
    // Weights, results and gradients have 11 or 8 bits: errors of a few thousandths or hundredths of what is learned.
    for (int step = 0; step < kSteps; ++step) {
      const auto i = static_cast<std::size_t>(step);
      EXPECT_NEAR(curve[i], wide[i], (precision == DType::f16 ? 0.003 : 0.02) * wide[i]) << "step " << step;
    }
    for (const passes::PrecisionRow& row : made->plan().precision.rows) {
      if (row.op != passes::kWeightsRow || row.storage == DType::f32) continue;
      EXPECT_EQ(row.bytes, 2 * matrices(base_));
    }
  }
}

TEST_F(FrozenPrecision, StreamedWeightsGiveTheSameAdapter) {
  const auto free = trainer(model_, options(DType::f16));
  ASSERT_TRUE(free);
  const std::uint64_t whole = free->plan().memory().total();
  const std::uint64_t budget = whole - free->plan().memory()[MemoryClass::weights] / 2;
  const auto tight = trainer(model_, options(DType::f16), budget);
  ASSERT_TRUE(tight);
  EXPECT_LE(tight->plan().memory().total(), budget);
  EXPECT_FALSE(tight->plan().residents.streaming().names.empty());
  EXPECT_EQ(losses_of(*tight, data_, 4, 4), losses_of(*free, data_, 4, 4));
  EXPECT_TRUE(contents_of(*tight) == contents_of(*free)) << "frozen weights included, as the device has them";
}

TEST_F(FrozenPrecision, WhatIsFrozenByNameIsNarrowAndWhatIsTrainedIsNot) {
  TrainOptions wanted = options(DType::f16);
  wanted.freeze = {"*mlp*"};
  const auto made = trainer(base_, wanted);
  ASSERT_TRUE(made);
  EXPECT_EQ(losses_of(*made, data_, 2, 4).size(), 2u);
  for (const Resident& resident : made->plan().residents.entries()) {
    const bool frozen = resident.name.find("mlp") != std::string::npos && resident.shape.rank() == 2;
    EXPECT_EQ(resident.stored, frozen ? DType::f16 : resident.dtype) << resident.name;
  }
  const auto source = data_.source();
  EXPECT_TRUE(made->evaluate(*source).ok());
}

TEST_F(FrozenPrecision, InferenceTakesHalfTheWeights) {
  MemoryByClass wide, narrow;
  const auto expected = logits(base_, DType::f32, wide);
  for (const DType precision : {DType::f16, DType::bf16}) {
    SCOPED_TRACE(dtype_name(precision));
    const auto got = logits(base_, precision, narrow);
    EXPECT_EQ(wide[MemoryClass::parameters] - narrow[MemoryClass::parameters], 2 * matrices(base_));
    // A unit in the last place of 11 or 8 bits, times a few for what goes through two layers.
    EXPECT_LT(distance(got, expected), precision == DType::f16 ? 2e-3 : 1.6e-2);
    EXPECT_GT(distance(got, expected), 0);
    MemoryByClass tight;
    EXPECT_EQ(logits(base_, precision, tight, narrow.total() - matrices(base_)), got) << "streamed";
  }
}

TEST_F(FrozenPrecision, GeneratesWithHalfTheWeights) {
  const Model letters = letter_model({.tokenizer = false});
  const std::vector<text::TokenId> prompt = {3, 1, 4, 1, 5};
  MemoryByClass wide;
  std::vector<text::TokenId> said;
  for (const DType precision : {DType::f32, DType::f16, DType::bf16}) {
    SCOPED_TRACE(dtype_name(precision));
    const auto generator = Generator::create(*shared_device(), letters, {.precision = precision});
    ASSERT_TRUE(generator.ok()) << generator.status().message();
    const MemoryByClass memory = (*generator)->memory();
    const auto text = (*generator)->generate(prompt, {.max_tokens = 8});
    ASSERT_TRUE(text.ok()) << text.status().message();
    if (precision == DType::f32) {
      wide = memory;
      said = text->tokens;
      continue;
    }
    const auto saved = wide[MemoryClass::parameters] - memory[MemoryClass::parameters];
    EXPECT_GE(saved, 2 * matrices(letters) * 95 / 100) << "but for alignment";
    EXPECT_EQ(text->tokens.size(), said.size());
    EXPECT_EQ(text->tokens.front(), said.front()) << "the first, before differences add up";
  }
}

TEST_F(FrozenPrecision, ANumberThatF16CannotHoldIsNamed) {
  TinyModel model = tiny_mlp(16, 16, 4);
  model.weights["fc1.weight"][5] = 1e6f;
  Model whole = plain_model(model);
  SessionOptions wanted;
  wanted.bindings = {{"batch", 1}};
  wanted.precision = DType::f16;
  const auto session = Session::create(*shared_device(), whole, wanted);
  ASSERT_FALSE(session.ok());
  EXPECT_NE(session.status().message().find("\"fc1.weight\" holds 1e+06, which f16 cannot"), std::string::npos)
      << session.status().message();
  wanted.precision = DType::bf16;
  EXPECT_TRUE(Session::create(*shared_device(), whole, wanted).ok());
}

/// A graph whose constants are read in different ways; which of them may be narrow.
TEST(NarrowWeights, AreFactorsOfProductsAndTables) {
  Graph graph;
  const auto weight = [&](const std::string& name, Shape shape) {
    return graph.add_value(name, DType::f32, std::move(shape), ValueKind::constant).value();
  };
  const auto node = [&](Op op, std::vector<ValueId> inputs, Attrs attrs = {}) {
    return graph.node(graph.add_node(op, std::move(inputs), std::move(attrs)).value()).outputs[0];
  };
  const ValueId x = graph.add_value("x", DType::f32, Shape{8, 16}, ValueKind::input).value();
  const ValueId ids = graph.add_value("ids", DType::i32, Shape{8}, ValueKind::input).value();
  ValueId y = node(Op::matmul, {x, weight("factor", {16, 16}), weight("bias", {16})});
  y = node(Op::add, {y, weight("summand", {8, 16})});
  const ValueId shared = weight("shared", {16, 16});
  y = node(Op::matmul, {y, shared});
  y = node(Op::matmul, {y, node(Op::mul, {shared, shared})});
  y = node(Op::matmul, {y, node(Op::reshape, {weight("viewed", {256})}, {{"shape", Shape{16, 16}}})});
  y = node(Op::matmul, {y, node(Op::reshape, {weight("flattened", {4, 64})}, {{"shape", Shape{16, 16}}})});
  const ValueId row = node(Op::gather, {weight("table", {40, 16}), ids}, {{"axis", std::int64_t{0}}});
  graph.add_output("y", node(Op::add, {y, row}));
  const ValueId given = weight("given", {16, 16});
  graph.add_output("z", node(Op::matmul, {x, given}));
  graph.add_output("given", given);
  node(Op::matmul, {x, weight("tiny", {16, 2})});
  EXPECT_EQ(passes::low_precision_weights(graph), (passes::WeightNames{"factor", "flattened", "table"}));
}

}  // namespace
}  // namespace graft::train::frozen_precision_test

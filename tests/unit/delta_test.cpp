// Weight deltas: made, kept in files, put on models.
#include <algorithm>
#include <cmath>

#include "runtime/delta/delta_file.h"
#include "runtime/delta/privacy.h"
#include "tests/support/delta_models.h"
#include "tests/support/files/temporary_folder.h"

namespace graft::test::delta_test {
namespace {

using delta::Coding;
using delta::Delta;
using delta::MakeOptions;

const char* const kTrained[] = {"fc.weight", "fc.half", "fc.brain", "norm.mean"};

Delta made(const Model& base, const Model& updated, const MakeOptions& options = {}) {
  auto result = delta::make(base, updated, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? std::move(*result) : Delta{};
}

/// The largest difference between weights of two models.
double worst(const Model& a, const Model& b) {
  double most = 0;
  for (const char* name : kTrained) {
    const auto x = numbers_in(a, name), y = numbers_in(b, name);
    for (std::size_t i = 0; i < x.size(); ++i) most = std::max(most, static_cast<double>(std::abs(x[i] - y[i])));
  }
  return most;
}

TEST(DeltaFile, ABaseAndItsDeltaMakeTheNewModel) {
  const Model base = delta_model(1), updated = delta_model(50);
  // f32 holds a difference to a unit in the last place of numbers below 8; bf16 to 2^-8 of itself; blocks of int8 to
  // half a step of 1/127 of their largest number, and the f16 and bf16 weights round once more, to 2^-8 of below 8.
  const std::pair<Coding, double> bounds[] = {{Coding::f32, 1e-6},
                                              {Coding::bf16, 8.0 / 256 + 8.0 / 256},
                                              {Coding::int8, 8.0 / 254 + 8.0 / 256},
                                              {Coding::fixed, 1.0 / 256 + 8.0 / 256}};
  for (const auto& [coding, bound] : bounds) {
    SCOPED_TRACE(std::string(delta::coding_name(coding)));
    MakeOptions options;
    options.coding = coding;
    options.samples = 3;
    options.local_steps = 7;
    const Delta first = made(base, updated, options);
    EXPECT_EQ(first.tensors.size(), 4u);
    EXPECT_EQ(first.find("mask"), nullptr);
    const auto bytes = delta::to_bytes(first);
    ASSERT_TRUE(bytes.ok());
    EXPECT_EQ(*bytes, *delta::to_bytes(first)) << "the same delta gives the same bytes";
    const auto again = delta::from_bytes(*bytes, "d");
    ASSERT_TRUE(again.ok()) << again.status().message();
    EXPECT_EQ(again->samples, 3u);
    EXPECT_EQ(again->local_steps, 7u);
    EXPECT_TRUE(again->base == weights_hash(base));
    EXPECT_EQ(*delta::to_bytes(*again), *bytes);
    const auto applied = delta::apply(base, *again);
    ASSERT_TRUE(applied.ok()) << applied.status().message();
    EXPECT_LE(worst(*applied, updated), bound);
    EXPECT_TRUE(validate(*applied).ok());
    if (coding == Coding::f32) {
      EXPECT_EQ(numbers_in(*applied, "fc.half"), numbers_in(updated, "fc.half"));
    }
  }
}

TEST(DeltaFile, HalfARateGoesHalfTheWay) {
  const Model base = delta_model(1), updated = delta_model(50);
  const auto half = delta::apply(base, made(base, updated), 0.5);
  ASSERT_TRUE(half.ok());
  const auto a = numbers_in(base, "fc.weight"), b = numbers_in(updated, "fc.weight"),
             c = numbers_in(*half, "fc.weight");
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(c[i], (a[i] + b[i]) / 2, 1e-6);
}

TEST(DeltaFile, WhatIsEqualIsLeftOutAndNothingIsNothing) {
  const Model base = delta_model(1);
  Model updated = delta_model(1);
  EXPECT_TRUE(made(base, updated).tensors.empty());
  const ValueId mean = updated.graph.find_value("norm.mean");
  ASSERT_TRUE(updated.copy_weight(mean, as_dtype(std::vector<float>(20, 2), DType::f32)).ok());
  const Delta one = made(base, updated);
  ASSERT_EQ(one.tensors.size(), 1u);
  EXPECT_EQ(one.tensors[0].name, "norm.mean");
  const auto applied = delta::apply(base, one);
  ASSERT_TRUE(applied.ok());
  EXPECT_EQ(numbers_in(*applied, "fc.weight"), numbers_in(base, "fc.weight"));
}

TEST(DeltaFile, AnotherBaseIsRefusedAndSoIsWhatNoDeltaHolds) {
  const Model base = delta_model(1), updated = delta_model(50), other = delta_model(2);
  const Delta delta = made(base, updated);
  const auto wrong = delta::apply(other, delta);
  ASSERT_EQ(wrong.status().code(), Code::invalid_argument);
  EXPECT_NE(wrong.status().message().find("does not belong on"), std::string::npos) << wrong.status().message();

  Model masked = delta_model(50);
  ASSERT_TRUE(masked.copy_weight(masked.graph.find_value("mask"), as_dtype({1, 2, 3, 4}, DType::f32)).ok());
  EXPECT_NE(delta::make(base, masked, {}).status().message().find("The constant \"mask\" differs"), std::string::npos);
  EXPECT_EQ(delta::make(base, two_layers(), {}).status().code(), Code::invalid_argument);
  Model broken = delta_model(50);
  std::vector<float> numbers(600, 1);
  numbers[5] = NAN;
  ASSERT_TRUE(broken.copy_weight(broken.graph.find_value("fc.weight"), as_dtype(numbers, DType::f32)).ok());
  EXPECT_NE(delta::make(base, broken, {}).status().message().find("\"fc.weight\" is not finite at element 5"),
            std::string::npos);

  MakeOptions options;
  options.noise = 1;
  EXPECT_EQ(delta::make(base, updated, options).status().code(), Code::invalid_argument) << "noise without a bound";
  options = {};
  options.samples = 0;
  EXPECT_EQ(delta::make(base, updated, options).status().code(), Code::invalid_argument);
  options = {};
  options.coding = Coding::fixed;
  options.fixed_bits = 30;
  EXPECT_NE(delta::make(base, updated, options).status().message().find("does not fit"), std::string::npos);
}

TEST(DeltaFile, AdaptersAreADeltaOfTheirModelAndOfAdapters) {
  const Model base = two_layers();
  const Model one = adapters_for(base, 3, 6, 1), two = adapters_for(base, 3, 6, 2);
  const Delta whole = made(base, one);
  EXPECT_EQ(whole.kind, delta::Kind::adapters);
  EXPECT_EQ(whole.rank, 3u);
  const auto back = delta::apply(base, whole);
  ASSERT_TRUE(back.ok()) << back.status().message();
  for (const ValueId id : one.graph.of_kind(ValueKind::parameter)) {
    const std::string& name = one.graph.value(id).name;
    EXPECT_EQ(numbers_in(*back, name), numbers_in(one, name));
  }
  EXPECT_TRUE(with_adapter(base, *back).ok());
  // From the adapters of a round to those of the next.
  const Delta step = made(one, two);
  EXPECT_EQ(step.kind, delta::Kind::weights);
  const auto next = delta::apply(one, step);
  ASSERT_TRUE(next.ok());
  EXPECT_TRUE(with_adapter(base, *next).ok());
  EXPECT_EQ(delta::apply(two, step).status().code(), Code::invalid_argument);
  EXPECT_EQ(delta::make(delta_model(1), one, {}).status().code(), Code::invalid_argument)
      << "adapters of another model";
  EXPECT_EQ(delta::make(one, base, {}).status().code(), Code::invalid_argument);
}

/// What coding loses comes again with the next round: the sum of what arrives stays within one round's loss.
TEST(DeltaFile, WhatCodingLosesIsNotLost) {
  const Model base = delta_model(1);
  std::map<std::string, std::vector<float>> residual;
  MakeOptions options;
  options.coding = Coding::int8;
  options.residual = &residual;
  constexpr int kRounds = 20;
  std::vector<double> wanted(600), arrived(600), without(600);
  double step = 0;
  for (int round = 0; round < kRounds; ++round) {
    Model updated = delta_model(1);
    auto numbers = numbers_in(base, "fc.weight");
    const auto change = some_numbers(600, 7, 0.01);  // the same each round: errors without feedback add up
    for (std::size_t i = 0; i < 600; ++i) {
      numbers[i] += change[i];
      wanted[i] += static_cast<double>(numbers[i]) - static_cast<double>(numbers_in(base, "fc.weight")[i]);
    }
    ASSERT_TRUE(updated.copy_weight(updated.graph.find_value("fc.weight"), as_dtype(numbers, DType::f32)).ok());
    const Delta with = made(base, updated, options);
    MakeOptions plain = options;
    plain.residual = nullptr;
    const Delta alone = made(base, updated, plain);
    const auto a = numbers_of(with, *with.find("fc.weight")), b = numbers_of(alone, *alone.find("fc.weight"));
    for (std::size_t i = 0; i < 600; ++i)
      arrived[i] += static_cast<double>(a[i]), without[i] += static_cast<double>(b[i]);
    step = 0.04 / 127;  // bell() ends at 3.5, and what was lost adds a little
  }
  double most = 0, most_without = 0;
  for (std::size_t i = 0; i < 600; ++i) {
    most = std::max(most, std::abs(arrived[i] - wanted[i]));
    most_without = std::max(most_without, std::abs(without[i] - wanted[i]));
  }
  EXPECT_LE(most, step);
  EXPECT_GT(most_without, 4 * step) << "without it the same error comes each round";
  residual["fc.weight"].resize(3);
  Model updated = delta_model(2);
  EXPECT_EQ(delta::make(base, updated, options).status().code(), Code::invalid_argument);
}

TEST(DeltaFile, EveryFlippedBitAndEveryTruncationIsRefused) {
  const Delta delta = made(two_layers(), adapters_for(two_layers(), 2, 4, 1));
  const auto file = delta::to_bytes(delta);
  ASSERT_TRUE(file.ok());
  std::vector<std::byte> bytes = *file;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[at] ^= static_cast<std::byte>(1 << bit);
      const auto read = delta::from_bytes(bytes, "d");
      ASSERT_FALSE(read.ok()) << "bit " << bit << " of byte " << at;
      ASSERT_NE(read.status().code(), Code::internal);
      bytes[at] ^= static_cast<std::byte>(1 << bit);
    }
    ASSERT_FALSE(delta::from_bytes(std::span(bytes).first(at), "d").ok()) << at;
  }
  EXPECT_TRUE(delta::from_bytes(bytes, "d").ok());
}

TEST(DeltaFile, ManyEqualNumbersArePackedNoFurtherThanAReaderUnpacks) {
  Model base, updated;
  for (Model* model : {&base, &updated}) {
    const ValueId id = *model->graph.add_value("w", DType::f32, {1 << 20}, ValueKind::parameter);
    std::vector<float> numbers(1 << 20, model == &base ? 0.f : 1.f);
    if (model == &updated) numbers[5] = 2;
    ASSERT_TRUE(model->copy_weight(id, as_dtype(numbers, DType::f32)).ok());
  }
  const auto bytes = delta::to_bytes(made(base, updated));
  ASSERT_TRUE(bytes.ok());
  const auto read = delta::from_bytes(*bytes, "d");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(numbers_of(*read, read->tensors[0])[5], 2.f);
}

TEST(DeltaFile, AFileThatCannotBeWrittenOrReadIsSaid) {
  const TemporaryFolder folder;
  const Delta delta = made(delta_model(1), delta_model(2));
  EXPECT_FALSE(delta::write_delta(os::system_files(), folder.file("no/d"), delta).ok());
  EXPECT_EQ(delta::read_delta(os::system_files(), folder.file("d")).status().code(), Code::not_found);
  ASSERT_TRUE(delta::write_delta(os::system_files(), folder.file("d"), delta).ok());
  EXPECT_TRUE(delta::read_delta(os::system_files(), folder.file("d")).ok());
}

}  // namespace
}  // namespace graft::test::delta_test

// Clipping, noise and the accountant, whose divergence is integrated anew here.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "runtime/delta/average.h"
#include "runtime/delta/delta.h"
#include "runtime/delta/privacy.h"
#include "tests/support/delta_models.h"

namespace graft::test::delta_privacy_test {
namespace {

double norm(const delta::Delta& delta) {
  double sum = 0;
  for (const auto& tensor : delta.tensors) {
    for (const float x : numbers_of(delta, tensor)) sum += static_cast<double>(x) * static_cast<double>(x);
  }
  return std::sqrt(sum);
}

TEST(DeltaPrivacy, ADeltaIsClippedToItsNormAndNoFurther) {
  const Model base = delta_model(1), updated = delta_model(9);
  const auto whole = delta::make(base, updated, {});
  ASSERT_TRUE(whole.ok());
  EXPECT_NEAR(whole->norm, norm(*whole), 1e-5 * whole->norm);
  delta::MakeOptions options;
  options.clip_norm = 2;
  const auto clipped = delta::make(base, updated, options);
  ASSERT_TRUE(clipped.ok());
  EXPECT_NEAR(norm(*clipped), 2, 1e-5);
  EXPECT_EQ(clipped->norm, whole->norm) << "as it was before";
  options.clip_norm = 1000;
  const auto loose = delta::make(base, updated, options);
  ASSERT_TRUE(loose.ok());
  EXPECT_EQ(numbers_of(*loose, loose->tensors[0]), numbers_of(*whole, whole->tensors[0]));
}

TEST(DeltaPrivacy, NoiseIsNormalAndNeverTheSame) {
  constexpr std::size_t kCount = 200000;
  const auto noise = [](std::optional<std::uint64_t> seed) {
    delta::Numbers numbers = {{"w", std::vector<double>(kCount)}};
    EXPECT_TRUE(delta::add_noise(numbers, 3, seed).ok());
    return numbers.at("w");
  };
  const auto a = noise(1);
  EXPECT_EQ(a, noise(1));
  const auto free = noise({});
  EXPECT_NE(free, noise({}));
  for (const auto& sample : {a, free}) {
    double mean = 0, square = 0, fourth = 0;
    for (const double x : sample) mean += x, square += x * x, fourth += x * x * x * x;
    mean /= kCount, square /= kCount, fourth /= kCount;
    // Six standard errors: 3 / sqrt(n), 9 sqrt(2 / n), 81 sqrt(96 / n).
    EXPECT_NEAR(mean, 0, 6 * 3 / std::sqrt(kCount));
    EXPECT_NEAR(square, 9, 6 * 9 * std::sqrt(2.0 / kCount));
    EXPECT_NEAR(fourth, 243, 6 * 81 * std::sqrt(96.0 / kCount));
    EXPECT_GT(*std::ranges::max_element(sample), 3 * 3.5) << "tails";
  }
}

/// Only one of four tensors changed.
Model one_changed(const Model& base) {
  Model updated = delta_model(1);
  const ValueId mean = updated.graph.find_value("norm.mean");
  std::vector<float> numbers = numbers_in(base, "norm.mean");
  for (float& x : numbers) x += 0.01F;
  EXPECT_TRUE(updated.copy_weight(mean, as_dtype(numbers, DType::f32)).ok());
  return updated;
}

delta::MakeOptions coded(delta::Coding coding, double clip_norm, double noise = 0) {
  delta::MakeOptions options;
  options.coding = coding;
  options.fixed_bits = 14;
  options.clip_norm = clip_norm;
  options.noise = noise;
  return options;
}

constexpr delta::Coding kCodings[] = {delta::Coding::f32, delta::Coding::bf16, delta::Coding::int8,
                                      delta::Coding::fixed};

TEST(DeltaPrivacy, NoiseIsInEveryNumberOfEveryTrainableTensor) {
  constexpr int kDraws = 60;
  const Model base = delta_model(1), updated = one_changed(base);
  for (const delta::Coding coding : kCodings) {
    std::map<std::string, std::pair<double, std::size_t>> squares;
    for (int draw = 0; draw < kDraws; ++draw) {
      const auto made = delta::make(base, updated, coded(coding, 0.05, 4));
      ASSERT_TRUE(made.ok()) << made.status().message();
      ASSERT_EQ(made->tensors.size(), 4u) << "which tensors changed is not told";
      EXPECT_NEAR(made->norm, norm(*made), 0.02 * made->norm) << "the norm before the noise is not told";
      for (const auto& tensor : made->tensors) {
        auto& [sum, count] = squares[tensor.name];
        for (const float x : numbers_of(*made, tensor)) sum += static_cast<double>(x) * static_cast<double>(x), ++count;
      }
    }
    // Deviation 0.2. Six standard errors, and what the change of 0.01 and the rounding add.
    for (const auto& [name, of] : squares) {
      const auto& [sum, count] = of;
      const double variance = sum / static_cast<double>(count);
      EXPECT_NEAR(variance, 0.04, 6 * 0.04 * std::sqrt(2.0 / static_cast<double>(count)) + 3e-4)
          << name << " as " << delta::coding_name(coding);
    }
  }
  const auto coarse = delta::make(base, updated, coded(delta::Coding::fixed, 1e-4, 0.1));
  EXPECT_NE(coarse.status().message().find("longer than the noise's deviation"), std::string::npos);
}

TEST(DeltaPrivacy, WhatAReaderDecodesKeepsToTheNorm) {
  const Model base = delta_model(1);
  for (const delta::Coding coding : kCodings) {
    for (std::uint64_t seed = 2; seed < 12; ++seed) {
      for (const double limit : {0.3, 2.0, 7.0}) {
        const auto made = delta::make(base, delta_model(seed), coded(coding, limit));
        ASSERT_TRUE(made.ok()) << made.status().message();
        EXPECT_LE(norm(*made), limit) << delta::coding_name(coding) << ' ' << seed;
        EXPECT_GE(norm(*made), 0.99 * limit) << delta::coding_name(coding) << ' ' << seed;
        EXPECT_EQ(made->tensors.size(), 4u);
      }
    }
  }
}

TEST(DeltaPrivacy, ADeltaThatWouldBeSentAsZerosIsRefused) {
  const Model base = delta_model(1), updated = delta_model(9);
  delta::MakeOptions options = coded(delta::Coding::fixed, 1e-5);
  EXPECT_NE(delta::make(base, updated, options).status().message().find("round to 0"), std::string::npos);
  delta::Residual kept;
  options.residual = &kept;
  EXPECT_TRUE(delta::make(base, updated, options).ok()) << "nothing is lost: it comes with a later round";
  EXPECT_FALSE(kept.empty());
}

TEST(DeltaPrivacy, NoiseOnTheSumIsOnAllOfItAndForWhatWasClipped) {
  const Model base = delta_model(1);
  const delta::AverageOptions options{.weighing = delta::Weighing::equal, .noise = 2, .clip_norm = 1, .seed = {}};
  const auto clipped = delta::make(base, delta_model(9), coded(delta::Coding::int8, 1));
  ASSERT_TRUE(clipped.ok());
  delta::Delta partial = *clipped, longer = *clipped;
  partial.tensors.pop_back();
  longer.clip_norm = 1;
  for (auto& tensor : longer.tensors)
    tensor.coded = delta::make(base, delta_model(9), coded(delta::Coding::int8, 2))->find(tensor.name)->coded;
  for (const auto& [bad, says] : {std::pair(&partial, "the same tensors"), std::pair(&longer, "says it was clipped")}) {
    delta::Averager averager(options);
    ASSERT_TRUE(averager.add(*clipped).ok());
    const Status refused = averager.add(*bad);
    EXPECT_NE(refused.message().find(says), std::string::npos) << refused.message();
  }
  // Each round draws 10 clients on average, of whom 2 came: the sum is divided by 10, and the 2 are not told.
  delta::AverageOptions expected = options;
  expected.expected_clients = 10;
  double sum = 0;
  constexpr int kDraws = 40;
  std::size_t count = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    delta::Averager averager(expected);
    for (int k = 0; k < 2; ++k) ASSERT_TRUE(averager.add(*delta::make(base, one_changed(base), coded({}, 1))).ok());
    const auto average = averager.finish();
    ASSERT_TRUE(average.ok());
    EXPECT_EQ(average->clients, 10u);
    EXPECT_EQ(average->samples, 10u);
    EXPECT_DOUBLE_EQ(average->noise, 0.2);
    for (const auto& tensor : average->tensors) {
      for (const float x : numbers_of(*average, tensor))
        sum += static_cast<double>(x) * static_cast<double>(x), ++count;
    }
  }
  const double variance = sum / static_cast<double>(count);
  EXPECT_NEAR(variance, 0.04, 6 * 0.04 * std::sqrt(2.0 / static_cast<double>(count)) + 1e-4);
}

/// The order that gives the least epsilon, by Simpson's rule over E[((1 - q) + q exp((2x - 1) / 2s^2))^a], x of N(0,
/// s^2).
double integrated(double s, double q, double rounds, double delta) {
  double best = INFINITY;
  for (int a = 2; a <= 64; ++a) {
    constexpr int kSteps = 40000;
    const double low = -40 * s, high = 40 * s + a + 1, h = (high - low) / kSteps;
    double sum = 0;
    for (int i = 0; i <= kSteps; ++i) {
      const double x = low + i * h;
      const double log_ratio = std::log((1 - q) + q * std::exp(std::min((2 * x - 1) / (2 * s * s), 600.0)));
      const double weight = i == 0 || i == kSteps ? 1 : i % 2 == 1 ? 4 : 2;
      sum += weight * std::exp(a * log_ratio - x * x / (2 * s * s) - std::log(s * std::sqrt(2 * std::numbers::pi)));
    }
    const double divergence = std::log(sum * h / 3) / (a - 1);
    best = std::min(best, rounds * divergence + std::log1p(-1.0 / a) - (std::log(delta) + std::log(a)) / (a - 1));
  }
  return best;
}

TEST(DeltaPrivacy, EpsilonIsThatOfTheIntegral) {
  for (const auto& [s, q, rounds] :
       {std::tuple{1.0, 0.01, 1000.0}, {1.1, 0.1, 50.0}, {4.0, 1.0, 10.0}, {2.0, 0.5, 3.0}}) {
    const auto cost = delta::privacy_of(s, q, static_cast<std::uint64_t>(rounds), 1e-5);
    ASSERT_TRUE(cost.ok());
    ASSERT_LE(cost->order, 64u);
    EXPECT_NEAR(cost->epsilon, integrated(s, q, rounds, 1e-5), 1e-6 * cost->epsilon) << s << ' ' << q;
  }
}

/// One release of a Gaussian has a closed form: Balle and Wang, "Improving the Gaussian Mechanism", 2018, theorem 8.
/// What Rényi divergences give is an upper bound, and not far above it.
TEST(DeltaPrivacy, TheBoundHoldsAndIsTight) {
  const auto phi = [](double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; };
  for (const double s : {0.7, 1.0, 2.0, 5.0}) {
    const auto cost = delta::privacy_of(s, 1, 1, 1e-5);
    ASSERT_TRUE(cost.ok());
    const double e = cost->epsilon;
    const double delta = phi(1 / (2 * s) - e * s) - std::exp(e) * phi(-1 / (2 * s) - e * s);
    EXPECT_LE(delta, 1e-5);
    EXPECT_GT(delta, 1e-7);
  }
  EXPECT_EQ(delta::privacy_of(1, 0.1, 0, 1e-5)->epsilon, 0);
  EXPECT_LT(delta::privacy_of(1, 0.01, 10, 1e-5)->epsilon, delta::privacy_of(1, 0.01, 100, 1e-5)->epsilon);
  for (const auto& [s, q, d] : {std::tuple{0.0, 0.1, 1e-5},
                                {NAN, 0.1, 1e-5},
                                {1.0, 0.0, 1e-5},
                                {1.0, 1.5, 1e-5},
                                {1.0, 0.1, 0.0},
                                {1.0, 0.1, 1.0}}) {
    EXPECT_EQ(delta::privacy_of(s, q, 1, d).status().code(), Code::invalid_argument);
  }
}

}  // namespace
}  // namespace graft::test::delta_privacy_test

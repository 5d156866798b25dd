// Clipping, noise and the accountant, whose divergence is integrated anew here.
#include <algorithm>
#include <cmath>
#include <numbers>

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

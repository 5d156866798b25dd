// The strongest directions of matrices whose singular values are known.
#include "runtime/lora/principal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace graft::principal_test {
namespace {

using Rows = std::vector<std::vector<double>>;

/// `count` orthonormal vectors, by Gram and Schmidt.
Rows orthonormal(std::size_t count, std::size_t length, std::mt19937& random) {
  std::normal_distribution<double> normal;
  Rows out(count, std::vector<double>(length));
  for (std::size_t i = 0; i < count; ++i) {
    for (double& x : out[i]) x = normal(random);
    for (int turn = 0; turn < 2; ++turn) {
      for (std::size_t j = 0; j < i; ++j) {
        double share = 0;
        for (std::size_t k = 0; k < length; ++k) share += out[i][k] * out[j][k];
        for (std::size_t k = 0; k < length; ++k) out[i][k] -= share * out[j][k];
      }
    }
    double squares = 0;
    for (const double x : out[i]) squares += x * x;
    for (double& x : out[i]) x /= std::sqrt(squares);
  }
  return out;
}

struct Known {
  std::size_t rows, columns;
  Rows u, v;
  std::vector<double> values;

  Known(std::size_t height, std::size_t width, std::size_t rank, double falls, unsigned seed)
      : rows(height), columns(width) {
    std::mt19937 random(seed);
    u = orthonormal(rank, height, random);
    v = orthonormal(rank, width, random);
    for (std::size_t i = 0; i < rank; ++i) values.push_back(3 * std::pow(falls, static_cast<double>(i)));
  }
  double element(std::size_t i, std::size_t k, std::size_t rank) const {
    double sum = 0;
    for (std::size_t r = 0; r < rank; ++r) sum += values[r] * u[r][i] * v[r][k];
    return sum;
  }
  std::vector<float> matrix() const {
    std::vector<float> out;
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t k = 0; k < columns; ++k) out.push_back(static_cast<float>(element(i, k, values.size())));
    }
    return out;
  }
  /// Of B A from the best product of this rank, as a share of its norm.
  double error(const PrincipalMatrices& found, std::size_t rank) const {
    double errors = 0, squares = 0;
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t k = 0; k < columns; ++k) {
        double product = 0;
        for (std::size_t r = 0; r < rank; ++r) product += double{found.b[i * rank + r]} * found.a[r * columns + k];
        const double best = element(i, k, rank);
        errors += (product - best) * (product - best);
        squares += best * best;
      }
    }
    return std::sqrt(errors / squares);
  }
};

TEST(PrincipalMatrices, AreTheLargestSingularValues) {
  struct Case {
    std::size_t rows, columns, rank;
    double falls, tolerance;
  };
  // Sides of up to 64 are exact to f32's roundings; the others to what the iteration leaves of the next directions.
  for (const Case& c : {Case{24, 40, 4, 0.9, 1e-6}, Case{40, 24, 24, 0.9, 1e-6}, Case{7, 5, 1, 0.5, 1e-6},
                        Case{120, 90, 5, 0.8, 1e-5}, Case{90, 150, 12, 0.9, 1e-4}}) {
    const Known known(c.rows, c.columns, std::min(c.rows, c.columns), c.falls, 3);
    const std::vector<float> matrix = known.matrix();
    const PrincipalMatrices found = principal_matrices(matrix, c.rows, c.columns, c.rank);
    EXPECT_LT(known.error(found, c.rank), c.tolerance) << c.rows << " x " << c.columns;
    for (std::size_t r = 0; r < c.rank; ++r) {  // each value's root in both
      double a = 0, b = 0;
      for (std::size_t k = 0; k < c.columns; ++k) a += std::pow(found.a[r * c.columns + k], 2);
      for (std::size_t i = 0; i < c.rows; ++i) b += std::pow(found.b[i * c.rank + r], 2);
      EXPECT_NEAR(a, known.values[r], 10 * c.tolerance * known.values[0]);
      EXPECT_NEAR(b, known.values[r], 10 * c.tolerance * known.values[0]);
    }
    const PrincipalMatrices again = principal_matrices(matrix, c.rows, c.columns, c.rank);
    EXPECT_EQ(again.a, found.a);
    EXPECT_EQ(again.b, found.b);
  }
}

// Directions that are not there become zeros, and nothing is divided by them.
TEST(PrincipalMatrices, OfWeightsOfALowRankAreFinite) {
  const Known known(80, 70, 2, 0.5, 5);
  const PrincipalMatrices found = principal_matrices(known.matrix(), 80, 70, 4);
  Known wider = known;
  wider.values.resize(4, 0);
  wider.u.resize(4, std::vector<double>(80));
  wider.v.resize(4, std::vector<double>(70));
  EXPECT_LT(wider.error(found, 4), 1e-6);
  const PrincipalMatrices nothing = principal_matrices(std::vector<float>(80 * 70), 80, 70, 4);
  for (const float x : nothing.a) ASSERT_EQ(x, 0);
  for (const float x : nothing.b) ASSERT_EQ(x, 0);
}

}  // namespace
}  // namespace graft::principal_test

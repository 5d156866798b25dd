#include "runtime/lora/principal.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "platform/base/stable_sort.h"
#include "runtime/core/philox.h"

// N. Halko, P. Martinsson, J. Tropp, "Finding Structure with Randomness", 2011: algorithm 4.4, with the singular values
// watched.

namespace graft {
namespace {

constexpr std::size_t kMore = 8;    ///< directions beside those that are wanted
constexpr std::size_t kWhole = 64;  ///< matrices with a side of up to this are taken as a whole
constexpr int kRounds = 12;
constexpr int kSweeps = 40;
constexpr double kSettled = 1e-8;
constexpr double kNothing = 1e-13;  ///< of a length that is left of another

/// Vectors of `length` as rows.
struct Vectors {
  std::size_t count = 0;
  std::size_t length = 0;
  std::vector<double> numbers;

  Vectors(std::size_t many, std::size_t long_each) : count(many), length(long_each), numbers(many * long_each) {}
  double* row(std::size_t i) { return numbers.data() + i * length; }
  const double* row(std::size_t i) const { return numbers.data() + i * length; }
};

double dot(const double* x, const double* y, std::size_t n) {
  double parts[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (std::size_t k = 0; k < 4; ++k) parts[k] += x[i + k] * y[i + k];
  }
  for (; i < n; ++i) parts[0] += x[i] * y[i];
  return parts[0] + parts[1] + (parts[2] + parts[3]);
}

Vectors turned(const Vectors& x) {
  Vectors out(x.length, x.count);
  for (std::size_t i = 0; i < x.count; ++i) {
    for (std::size_t k = 0; k < x.length; ++k) out.row(k)[i] = x.row(i)[k];
  }
  return out;
}

class Matrix {
 public:
  Matrix(std::span<const float> numbers, std::size_t rows, std::size_t columns)
      : numbers_(numbers), rows_(rows), columns_(columns) {}

  /// M x of each vector x of [columns].
  Vectors times(const Vectors& x) const {
    const Vectors by_column = turned(x);
    Vectors out(rows_, x.count);
    for (std::size_t i = 0; i < rows_; ++i) {
      for (std::size_t k = 0; k < columns_; ++k) add(at(i, k), by_column.row(k), out.row(i), x.count);
    }
    return turned(out);
  }

  /// M^T x of each vector x of [rows].
  Vectors transposed_times(const Vectors& x) const {
    const Vectors by_row = turned(x);
    Vectors out(columns_, x.count);
    for (std::size_t i = 0; i < rows_; ++i) {
      for (std::size_t k = 0; k < columns_; ++k) add(at(i, k), by_row.row(i), out.row(k), x.count);
    }
    return turned(out);
  }

 private:
  double at(std::size_t row, std::size_t column) const { return numbers_[row * columns_ + column]; }
  static void add(double factor, const double* from, double* to, std::size_t n) {
    constexpr std::size_t kBlock = 8;  // by vector instructions, for what is written is read before
    std::size_t j = 0;
    for (; j + kBlock <= n; j += kBlock) {
      double sums[kBlock];
      for (std::size_t k = 0; k < kBlock; ++k) sums[k] = to[j + k] + factor * from[j + k];
      for (std::size_t k = 0; k < kBlock; ++k) to[j + k] = sums[k];
    }
    for (; j < n; ++j) to[j] += factor * from[j];
  }
  std::span<const float> numbers_;
  std::size_t rows_, columns_;
};

/// Makes them orthonormal, in order, twice so that rounding does not tell; what depends on those before becomes zeros.
void orthonormalize(Vectors& x) {
  for (std::size_t i = 0; i < x.count; ++i) {
    double* const row = x.row(i);
    const double before = std::sqrt(dot(row, row, x.length));
    for (int turn = 0; turn < 2; ++turn) {
      for (std::size_t j = 0; j < i; ++j) {
        const double share = dot(row, x.row(j), x.length);
        for (std::size_t k = 0; k < x.length; ++k) row[k] -= share * x.row(j)[k];
      }
    }
    const double left = std::sqrt(dot(row, row, x.length));
    const double factor = left <= kNothing * before ? 0 : 1 / left;
    for (std::size_t k = 0; k < x.length; ++k) row[k] *= factor;
  }
}

/// Eigenvalues of a symmetric matrix on its diagonal, by Jacobi's rotations; `vectors` gets an eigenvector in each row.
void diagonalize(Vectors& matrix, Vectors& vectors) {
  const std::size_t n = matrix.count;
  for (std::size_t i = 0; i < n; ++i) vectors.row(i)[i] = 1;
  const auto rotate = [n](Vectors& x, std::size_t p, std::size_t q, double c, double s) {
    for (std::size_t k = 0; k < n; ++k) {
      const double xp = x.row(p)[k], xq = x.row(q)[k];
      x.row(p)[k] = c * xp - s * xq;
      x.row(q)[k] = s * xp + c * xq;
    }
  };
  for (int sweep = 0; sweep < kSweeps; ++sweep) {
    bool moved = false;
    for (std::size_t p = 0; p < n; ++p) {
      for (std::size_t q = p + 1; q < n; ++q) {
        const double apq = matrix.row(p)[q], app = matrix.row(p)[p], aqq = matrix.row(q)[q];
        if (std::abs(apq) <= 1e-17 * std::sqrt(std::abs(app * aqq)) || std::abs(apq) < 1e-300) continue;
        moved = true;
        const double half = (aqq - app) / (2 * apq);
        const double t = (half >= 0 ? 1 : -1) / (std::abs(half) + std::sqrt(half * half + 1));
        const double c = 1 / std::sqrt(t * t + 1);
        rotate(matrix, p, q, c, t * c);
        for (std::size_t k = 0; k < n; ++k) {  // and the columns
          const double xp = matrix.row(k)[p], xq = matrix.row(k)[q];
          matrix.row(k)[p] = c * xp - t * c * xq;
          matrix.row(k)[q] = t * c * xp + c * xq;
        }
        rotate(vectors, p, q, c, t * c);
      }
    }
    if (!moved) return;
  }
}

/// Turns what spans the rows' side, and its images M^T q, to singular vectors, the strongest first. Returns the
/// singular values.
std::vector<double> turn_to_singular(Vectors& q, Vectors& images) {
  const std::size_t n = q.count;
  Vectors gram(n, n), vectors(n, n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      gram.row(i)[j] = gram.row(j)[i] = dot(images.row(i), images.row(j), images.length);
    }
  }
  diagonalize(gram, vectors);
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  graft::stable_sort(order, [&](std::size_t i, std::size_t j) { return gram.row(i)[i] > gram.row(j)[j]; });
  const auto combined = [&](const Vectors& x) {
    Vectors out(n, x.length);
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        const double share = vectors.row(order[i])[j];
        for (std::size_t k = 0; k < x.length; ++k) out.row(i)[k] += share * x.row(j)[k];
      }
    }
    return out;
  };
  q = combined(q);
  images = combined(images);
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = std::sqrt(dot(images.row(i), images.row(i), images.length));
  return values;
}

Vectors start(std::size_t count, std::size_t length) {
  Vectors out(count, length);
  for (std::size_t i = 0; i < out.numbers.size(); ++i) {
    const auto words = philox({static_cast<std::uint32_t>(i / 4), static_cast<std::uint32_t>(i >> 34), 0, 0}, {0, 0});
    out.numbers[i] = words[i % 4] * 0x1p-31 - 1;
  }
  return out;
}

bool settled(const std::vector<double>& before, const std::vector<double>& now, std::size_t rank) {
  for (std::size_t i = 0; i < rank; ++i) {
    if (std::abs(now[i] - before[i]) > kSettled * now[0]) return false;
  }
  return true;
}

}  // namespace

PrincipalMatrices principal_matrices(std::span<const float> matrix, std::size_t rows, std::size_t columns,
                                     std::size_t rank) {
  const std::size_t least = std::min(rows, columns);
  const std::size_t count = least <= kWhole ? least : std::min(least, rank + kMore);
  const Matrix m(matrix, rows, columns);
  Vectors images = start(count, columns);
  Vectors q(0, rows);
  std::vector<double> values(count);
  for (int round = 0; round < kRounds; ++round) {
    orthonormalize(images);
    q = m.times(images);
    orthonormalize(q);
    images = m.transposed_times(q);
    const std::vector<double> before = std::exchange(values, turn_to_singular(q, images));
    if (count == least ? round > 0 : settled(before, values, rank)) break;
  }
  PrincipalMatrices out{std::vector<float>(rank * columns), std::vector<float>(rows * rank)};
  for (std::size_t r = 0; r < rank; ++r) {
    const double* const image = images.row(r);
    const double root = std::sqrt(values[r]);
    const double largest =
        *std::max_element(image, image + columns, [](double x, double y) { return std::abs(x) < std::abs(y); });
    const double sign = largest < 0 ? -1 : 1;  // either would do; always the same
    for (std::size_t k = 0; k < columns; ++k) {
      out.a[r * columns + k] = root == 0 ? 0 : static_cast<float>(sign * image[k] / root);
    }
    for (std::size_t i = 0; i < rows; ++i) out.b[i * rank + r] = static_cast<float>(sign * root * q.row(r)[i]);
  }
  return out;
}

}  // namespace graft

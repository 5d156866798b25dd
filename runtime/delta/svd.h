// The largest singular values of a product of two thin matrices.
#pragma once

#include <cstddef>
#include <vector>

namespace graft::delta {

/// Column-major, in double precision.
struct Matrix {
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<double> values;

  Matrix(std::size_t r, std::size_t c) : rows(r), columns(c), values(r * c) {}
  double* column(std::size_t j) { return values.data() + j * rows; }
  const double* column(std::size_t j) const { return values.data() + j * rows; }
};

struct Svd {
  Matrix left;                   ///< [rows, k]
  std::vector<double> singular;  ///< k, from the largest
  Matrix right;                  ///< [columns, k]
};

/// A = U S V^T of `a` [rows, columns], k the smaller of the two. One-sided Jacobi rotations (Hestenes 1958): as exact
/// as the numbers are, also for small singular values.
Svd svd(const Matrix& a);

/// The same of left right^T, where left is [m, r] and right is [n, r], without forming it where r is small: QR of both,
/// then svd() of the r x r core. k = min(m, n, r).
Svd svd_of_product(const Matrix& left, const Matrix& right);

}  // namespace graft::delta

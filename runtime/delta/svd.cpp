#include "runtime/delta/svd.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "platform/base/stable_sort.h"

namespace graft::delta {
namespace {

double dot(const double* a, const double* b, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

Matrix transposed(const Matrix& a) {
  Matrix out(a.columns, a.rows);
  for (std::size_t j = 0; j < a.columns; ++j) {
    for (std::size_t i = 0; i < a.rows; ++i) out.column(i)[j] = a.column(j)[i];
  }
  return out;
}

Matrix product(const Matrix& a, const Matrix& b) {
  Matrix out(a.rows, b.columns);
  for (std::size_t j = 0; j < b.columns; ++j) {
    for (std::size_t k = 0; k < a.columns; ++k) {
      const double factor = b.column(j)[k];
      for (std::size_t i = 0; i < a.rows; ++i) out.column(j)[i] += factor * a.column(k)[i];
    }
  }
  return out;
}

/// Makes two columns orthogonal and turns those of `v` with them; false where they were.
bool rotate(Matrix& a, Matrix& v, std::size_t p, std::size_t q) {
  double* x = a.column(p);
  double* y = a.column(q);
  const double xx = dot(x, x, a.rows), yy = dot(y, y, a.rows), xy = dot(x, y, a.rows);
  if (std::abs(xy) <= 1e-13 * std::sqrt(xx * yy)) return false;  // what sums of so many products are worth
  const double zeta = (yy - xx) / (2 * xy);
  const double t = std::copysign(1 / (std::abs(zeta) + std::hypot(1, zeta)), zeta);
  const double c = 1 / std::hypot(1, t), s = c * t;
  const auto turn = [&](double* u, double* w, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      const double before = u[i];
      u[i] = c * before - s * w[i];
      w[i] = s * before + c * w[i];
    }
  };
  turn(x, y, a.rows);
  turn(v.column(p), v.column(q), v.rows);
  return true;
}

/// Q with orthonormal columns (zeros where `a` has no more directions) and R with a = Q R. Gram and Schmidt, twice.
std::pair<Matrix, Matrix> qr(Matrix a) {
  Matrix r(a.columns, a.columns);
  for (std::size_t j = 0; j < a.columns; ++j) {
    double* x = a.column(j);
    const double before = std::sqrt(dot(x, x, a.rows));
    for (int pass = 0; pass < 2; ++pass) {
      for (std::size_t k = 0; k < j; ++k) {
        const double along = dot(a.column(k), x, a.rows);
        for (std::size_t i = 0; i < a.rows; ++i) x[i] -= along * a.column(k)[i];
        r.column(j)[k] += along;
      }
    }
    double norm = std::sqrt(dot(x, x, a.rows));
    if (norm <= 1e-14 * before) norm = 0;
    r.column(j)[j] = norm;
    for (std::size_t i = 0; i < a.rows; ++i) x[i] = norm > 0 ? x[i] / norm : 0;
  }
  return {std::move(a), std::move(r)};
}

}  // namespace

Svd svd(const Matrix& a) {
  if (a.rows < a.columns) {
    Svd turned = svd(transposed(a));
    std::swap(turned.left, turned.right);
    return turned;
  }
  Matrix u = a;
  const std::size_t n = a.columns;
  Matrix v(n, n);
  for (std::size_t j = 0; j < n; ++j) v.column(j)[j] = 1;
  constexpr int kMostSweeps = 60;  // ten do for any matrix that was ever tried
  bool turned = true;
  for (int sweep = 0; sweep < kMostSweeps && turned; ++sweep) {
    turned = false;
    for (std::size_t p = 0; p + 1 < n; ++p) {
      for (std::size_t q = p + 1; q < n; ++q) turned = rotate(u, v, p, q) || turned;
    }
  }
  std::vector<double> singular(n);
  for (std::size_t j = 0; j < n; ++j) singular[j] = std::sqrt(dot(u.column(j), u.column(j), u.rows));
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  graft::stable_sort(order, [&](std::size_t i, std::size_t j) { return singular[i] > singular[j]; });
  Svd out{Matrix(u.rows, n), std::vector<double>(n), Matrix(n, n)};
  for (std::size_t j = 0; j < n; ++j) {
    const std::size_t from = order[j];
    out.singular[j] = singular[from];
    for (std::size_t i = 0; i < u.rows; ++i) {
      out.left.column(j)[i] = singular[from] > 0 ? u.column(from)[i] / singular[from] : 0;
    }
    std::copy_n(v.column(from), n, out.right.column(j));
  }
  return out;
}

Svd svd_of_product(const Matrix& left, const Matrix& right) {
  if (left.columns >= std::min(left.rows, right.rows)) return svd(product(left, transposed(right)));
  const auto [ql, rl] = qr(left);
  const auto [qr_, rr] = qr(right);
  Svd core = svd(product(rl, transposed(rr)));
  return {product(ql, core.left), std::move(core.singular), product(qr_, core.right)};
}

}  // namespace graft::delta

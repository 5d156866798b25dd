// What the references of recurrent ops share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/ops/rnn/cell.h"
#include "runtime/reference/ref_context.h"

namespace graft::ops::rnn {

inline constexpr std::size_t kNoLengths = std::numeric_limits<std::size_t>::max();

struct RefSizes {
  std::size_t steps = 0, rows = 0, hidden = 0;
  Cell cell;

  /// `y_like`: an output or input [steps, rows, hidden].
  RefSizes(const RefContext& c, std::size_t y_like, bool is_output, std::string_view fallback) {
    const auto& dims = is_output ? c.out_dims(y_like) : c.in_dims(y_like);
    steps = static_cast<std::size_t>(dims[0]);
    rows = static_cast<std::size_t>(dims[1]);
    hidden = static_cast<std::size_t>(dims[2]);
    if (auto read = read_cell(c.attrs(), fallback); read.ok()) cell = *read;  // inference has read it before
  }

  std::size_t row_elements() const { return rows * hidden; }
  std::size_t time(std::size_t k) const { return cell.reverse ? steps - 1 - k : k; }

  /// A copy of input i, or zeros.
  std::vector<double> state(const RefContext& c, std::size_t i) const {
    return c.has(i) ? std::vector<double>(c.in(i).begin(), c.in(i).end()) : std::vector<double>(row_elements());
  }

  /// Whether the row's sequence, of a length in input `lengths`, does not reach step t.
  static bool rests(const RefContext& c, std::size_t lengths, std::size_t row, std::size_t t) {
    return c.has(lengths) && static_cast<double>(t) >= c.in(lengths)[row];
  }

  /// state [rows, k] times r [n, k] transposed.
  std::vector<double> product(std::span<const double> r, std::span<const double> factors, std::size_t n,
                              std::size_t k) const {
    std::vector<double> all(rows * n);
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t m = 0; m < n; ++m) {
        double sum = 0;
        for (std::size_t i = 0; i < k; ++i) sum += factors[row * k + i] * r[m * k + i];
        all[row * n + m] = sum;
      }
    }
    return all;
  }
  std::vector<double> products(std::span<const double> r, std::span<const double> factors, std::size_t gates) const {
    return product(r, factors, gates * hidden, hidden);
  }

  /// to [rows, hidden] += factors [rows, gates * hidden] times r [gates * hidden, hidden].
  void add_back(std::span<const double> r, std::span<const double> factors, std::size_t gates,
                std::span<double> to) const {
    const std::size_t all = gates * hidden;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t m = 0; m < all; ++m) {
        for (std::size_t j = 0; j < hidden; ++j) to[row * hidden + j] += factors[row * all + m] * r[m * hidden + j];
      }
    }
  }

  double clipped(double x) const { return cell.clip > 0 ? std::clamp(x, -cell.clip, cell.clip) : x; }
  double saved(double sum, double y) const { return cell.saves_sums ? sum : y; }
  double restored(const ActivationUse& use, double kept) const {
    return cell.saves_sums ? activated(use, clipped(kept)) : kept;
  }
  double slope_of(const ActivationUse& use, double kept, double y) const {
    return cell.clip > 0 && std::abs(kept) >= cell.clip ? 0 : slope(use, clipped(kept), y);
  }

  /// What stood in y one step before, in the order of computation.
  void fill_before(const RefContext& c, std::span<const double> y, const std::vector<double>& first,
                   std::size_t lengths, std::span<double> before) const {
    for (std::size_t k = 0; k < steps; ++k) {
      const std::size_t t = time(k);
      for (std::size_t i = 0; i < row_elements(); ++i) {
        const bool begins = k == 0 || (cell.reverse && lengths != kNoLengths && c.has(lengths) &&
                                       static_cast<double>(t) + 1 == c.in(lengths)[i / hidden]);
        before[t * row_elements() + i] = begins ? first[i] : y[time(k - 1) * row_elements() + i];
      }
    }
  }
};

}  // namespace graft::ops::rnn

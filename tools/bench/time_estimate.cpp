#include "tools/bench/time_estimate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace graft::cli {
namespace {

std::vector<double> ranks(std::span<const double> numbers) {
  std::vector<std::size_t> order(numbers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return numbers[a] < numbers[b]; });
  std::vector<double> out(numbers.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first;
    while (end < order.size() && numbers[order[end]] == numbers[order[first]]) ++end;
    for (std::size_t i = first; i < end; ++i) out[order[i]] = static_cast<double>(first + end - 1) / 2;
    first = end;
  }
  return out;
}

}  // namespace

double rank_correlation(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> x = ranks(a), y = ranks(b);
  const double mean = (static_cast<double>(x.size()) - 1) / 2;
  double both = 0, square_x = 0, square_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    both += (x[i] - mean) * (y[i] - mean);
    square_x += (x[i] - mean) * (x[i] - mean);
    square_y += (y[i] - mean) * (y[i] - mean);
  }
  return square_x > 0 && square_y > 0 ? both / std::sqrt(square_x * square_y) : 0;
}

}  // namespace graft::cli

#include "runtime/delta/privacy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "platform/os/entropy.h"
#include "runtime/data/random.h"

namespace graft::delta {
namespace {

constexpr std::uint32_t kMostOrder = 512;

/// Box and Muller's two normal numbers of two uniform words.
void normal_pair(const std::uint64_t (&words)[2], double (&out)[2]) {
  const double radius = std::sqrt(-2 * std::log((static_cast<double>(words[0] >> 11) + 1) * 0x1p-53));  // of (0, 1]
  const double angle = 2 * std::numbers::pi * static_cast<double>(words[1] >> 11) * 0x1p-53;
  out[0] = radius * std::cos(angle);
  out[1] = radius * std::sin(angle);
}

double log_of_sum(double a, double b) {
  const double high = std::max(a, b);
  if (high == -std::numeric_limits<double>::infinity()) return high;
  return high + std::log1p(std::exp(std::min(a, b) - high));
}

/// The Rényi divergence of one round at an integer order, at least 2.
double divergence(double noise, double rate, std::uint32_t order) {
  const double a = order;
  if (rate == 1) return a / (2 * noise * noise);
  double log_sum = -std::numeric_limits<double>::infinity();
  for (std::uint32_t k = 0; k <= order; ++k) {
    const double log_choose = std::lgamma(a + 1) - std::lgamma(k + 1.0) - std::lgamma(a - k + 1);
    const double k2 = static_cast<double>(k) * k - k;
    log_sum =
        log_of_sum(log_sum, log_choose + (a - k) * std::log1p(-rate) + k * std::log(rate) + k2 / (2 * noise * noise));
  }
  return std::max(0.0, log_sum / (a - 1));
}

}  // namespace

double norm_of(const Numbers& numbers) {
  double sum = 0;
  for (const auto& [name, values] : numbers) {
    for (const double x : values) sum += x * x;
  }
  return std::sqrt(sum);
}

void clip(Numbers& numbers, double norm, double limit) {
  if (norm <= limit) return;
  for (auto& [name, values] : numbers) {
    for (double& x : values) x *= limit / norm;
  }
}

Status add_noise(Numbers& numbers, double deviation, std::optional<std::uint64_t> seed) {
  constexpr std::size_t kPairs = 512;
  std::uint64_t words[kPairs][2];
  std::size_t used = kPairs;
  data::Random random(seed.value_or(0));
  double pair[2];
  std::size_t left = 0;
  for (auto& [name, values] : numbers) {
    for (double& x : values) {
      if (left == 0 && used == kPairs) {
        if (seed) {
          for (auto& two : words) two[0] = random.next(), two[1] = random.next();
        } else {
          GRAFT_TRY(os::fill_with_entropy(std::as_writable_bytes(std::span(words))));
        }
        used = 0;
      }
      if (left == 0) normal_pair(words[used++], pair), left = 2;
      x += deviation * pair[--left];
    }
  }
  return ok_status();
}

Result<Privacy> privacy_of(double noise, double rate, std::uint64_t rounds, double delta) {
  if (!(noise > 0) || !std::isfinite(noise)) return invalid("A noise multiplier of ", noise, " hides nothing.");
  if (!(rate > 0 && rate <= 1))
    return invalid("A share of clients of ", rate, "; more than 0 and at most 1 is wanted.");
  if (!(delta > 0 && delta < 1)) return invalid("A delta of ", delta, "; between 0 and 1 is wanted.");
  if (rounds == 0) return Privacy{0, 2};
  Privacy best{std::numeric_limits<double>::infinity(), 2};
  for (std::uint32_t order = 2; order <= kMostOrder; ++order) {
    const double a = order;
    const double epsilon = static_cast<double>(rounds) * divergence(noise, rate, order) + std::log1p(-1 / a) -
                           (std::log(delta) + std::log(a)) / (a - 1);
    if (epsilon < best.epsilon) best = {std::max(0.0, epsilon), order};
  }
  return best;
}

}  // namespace graft::delta

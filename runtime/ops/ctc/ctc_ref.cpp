#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "runtime/reference/ref_context.h"

namespace graft::ops::ctc {

namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  const double most = std::max(a, b);
  return most == kNever ? kNever : most + std::log(std::exp(a - most) + std::exp(b - most));
}

/// All paths of one sample.
struct Paths {
  std::vector<std::int64_t> states;  ///< blank, label, blank, ...
  std::int64_t steps, classes;
  std::span<const double> log_probs;  ///< of the sample

  Paths(RefContext& c, std::size_t sample)
      : steps(c.in_dims(0)[1]),
        classes(c.in_dims(0)[2]),
        log_probs(c.in(0).subspan(sample * static_cast<std::size_t>(steps * classes),
                                  static_cast<std::size_t>(steps * classes))) {
    const std::int64_t blank = c.attrs().integer("blank");
    const auto length = static_cast<std::size_t>(c.in_dims(1)[1]);
    states.push_back(blank);
    for (std::size_t i = 0; i < length && c.in(1)[sample * length + i] >= 0; ++i) {
      states.push_back(static_cast<std::int64_t>(c.in(1)[sample * length + i]));
      states.push_back(blank);
    }
  }
  std::size_t labels() const { return states.size() / 2; }
  double at(std::int64_t t, std::size_t s) const {
    return states[s] < classes ? log_probs[static_cast<std::size_t>(t * classes + states[s])] : kNever;
  }
  bool may_skip(std::size_t s) const { return s >= 2 && states[s] != states[0] && states[s] != states[s - 2]; }

  std::vector<std::vector<double>> forward() const {
    std::vector<std::vector<double>> alpha;
    for (std::int64_t t = 0; t < steps; ++t) {
      std::vector<double> row(states.size(), kNever);
      for (std::size_t s = 0; s < states.size(); ++s) {
        double from = t == 0 && s < 2 ? 0 : kNever;
        if (t > 0) {
          from = alpha.back()[s];
          if (s > 0) from = log_add(from, alpha.back()[s - 1]);
          if (may_skip(s)) from = log_add(from, alpha.back()[s - 2]);
        }
        row[s] = from + at(t, s);
      }
      alpha.push_back(std::move(row));
    }
    return alpha;
  }
  std::vector<std::vector<double>> backward() const {
    std::vector<std::vector<double>> beta(static_cast<std::size_t>(steps), std::vector<double>(states.size(), kNever));
    for (std::int64_t t = steps; t-- > 0;) {
      for (std::size_t s = 0; s < states.size(); ++s) {
        double& to = beta[static_cast<std::size_t>(t)][s];
        if (t + 1 == steps) {
          to = s + 2 >= states.size() ? 0 : kNever;
          continue;
        }
        const auto& next = beta[static_cast<std::size_t>(t) + 1];
        for (std::size_t d = 0; d < 3 && s + d < states.size(); ++d) {
          if (d == 2 && !may_skip(s + 2)) continue;
          to = log_add(to, next[s + d] + at(t + 1, s + d));
        }
      }
    }
    return beta;
  }
  double total(const std::vector<std::vector<double>>& alpha) const {
    if (alpha.empty()) return states.size() == 1 ? 0 : kNever;
    const double last = alpha.back().back();
    return states.size() < 2 ? last : log_add(last, alpha.back()[states.size() - 2]);
  }
};

}  // namespace

void ref_ctc_loss(RefContext& c) {
  for (std::size_t n = 0; n < c.out().size(); ++n) {
    const Paths paths(c, n);
    const double total = paths.total(paths.forward());
    const double count = std::max<double>(static_cast<double>(paths.labels()), 1);
    c.out()[n] = total == kNever && c.attrs().flag("zero_infinity") ? 0 : -total / count;
  }
}

void ref_ctc_loss_grad(RefContext& c) {
  const auto of_sample = static_cast<std::size_t>(c.in_dims(0)[1] * c.in_dims(0)[2]);
  for (std::size_t n = 0; n < c.in(2).size(); ++n) {
    const Paths paths(c, n);
    const auto alpha = paths.forward(), beta = paths.backward();
    const double total = paths.total(alpha);
    if (total == kNever) continue;
    const double size = c.in(2)[n] / std::max<double>(static_cast<double>(paths.labels()), 1);
    for (std::size_t t = 0; t < alpha.size(); ++t) {
      for (std::size_t s = 0; s < paths.states.size(); ++s) {
        if (paths.states[s] >= paths.classes) continue;
        const std::size_t at =
            n * of_sample + t * static_cast<std::size_t>(paths.classes) + static_cast<std::size_t>(paths.states[s]);
        c.out()[at] -= size * std::exp(alpha[t][s] + beta[t][s] - total);
      }
    }
  }
}

}  // namespace graft::ops::ctc

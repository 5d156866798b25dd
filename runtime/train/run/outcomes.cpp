#include "runtime/train/run/outcomes.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace graft::train {
namespace {

constexpr std::uint64_t kMostRows = std::uint64_t{1} << 28;  // 2 GiB of labels and predictions
constexpr std::uint64_t kMostExact = 25;

/// A row that counts, of both models.
void compare_row(std::int32_t label, bool old_right, bool new_right, Comparison& out,
                 std::map<std::int32_t, ClassComparison>& classes) {
  ++out.rows;
  out.both_right += old_right && new_right ? 1 : 0;
  out.only_old += old_right && !new_right ? 1 : 0;
  out.only_new += new_right && !old_right ? 1 : 0;
  out.neither += !old_right && !new_right ? 1 : 0;
  ClassComparison& its = classes[label];
  its.label = label;
  ++its.rows;
  its.old_right += old_right ? 1 : 0;
  its.new_right += new_right ? 1 : 0;
}

void compare_errors(const Outcomes& before, const Outcomes& now, Comparison& out) {
  for (std::uint64_t sample = 0; sample < out.samples; ++sample) {
    const double then = before.errors()[sample], after = now.errors()[sample];
    ++out.rows;
    if (after > then) {
      ++out.only_old;
      out.lost.push_back(sample);
    } else if (after < then) {
      ++out.only_new;
      out.gained.push_back(sample);
    } else {
      ++out.neither;
    }
  }
  out.changed = out.lost;
}

}  // namespace

void Outcomes::clear() {
  samples_ = 0;
  labels_.clear();
  predicted_.clear();
  errors_.clear();
}

Status Outcomes::add(const EvaluatedBatch& batch) {
  GRAFT_TRY_ASSIGN(const EvaluatedRows rows, rows_of(batch, options_));
  task_ = rows.task;
  rows_ = rows.rows;
  classes_ = rows.task == Task::classes ? rows.classes : 2;
  samples_ += rows.samples;
  if (task_ == Task::none) return ok_status();
  if (samples_ > kMostRows / std::max<std::uint64_t>(rows_, 1)) {
    return error(Code::out_of_memory, "What a model says of more than ", kMostRows,
                 " rows is not kept; take fewer samples (count=N).");
  }
  for (std::uint64_t sample = 0; sample < rows.samples; ++sample) {
    double squares = 0;
    for (std::uint64_t row = sample * rows_; row < (sample + 1) * rows_; ++row) {
      if (task_ == Task::regression) {
        const double off = rows.target(row) - static_cast<double>(rows.predictions[row]);
        squares += off * off;
      } else if (task_ == Task::classes) {
        labels_.push_back(rows.is_ignored(row) ? -1 : rows.label(row));
        predicted_.push_back(static_cast<std::int32_t>(rows.predicted(row)));
      } else {
        labels_.push_back(rows.target(row) > 0.5 ? 1 : 0);
        predicted_.push_back(rows.predictions[row] > 0 ? 1 : 0);
      }
    }
    if (task_ == Task::regression) errors_.push_back(squares / static_cast<double>(std::max<std::uint64_t>(rows_, 1)));
  }
  return ok_status();
}

double mcnemar(std::uint64_t b, std::uint64_t c, bool& exact) {
  const std::uint64_t n = b + c;
  exact = n <= kMostExact;
  if (n == 0) return 1;
  if (!exact) {
    const double off = std::max(std::abs(static_cast<double>(b) - static_cast<double>(c)) - 1, 0.0);
    return std::erfc(std::sqrt(off * off / static_cast<double>(n) / 2));
  }
  // Twice the chance of min(b, c) heads or fewer among n tosses.
  double term = std::ldexp(1.0, -static_cast<int>(n)), sum = 0;
  for (std::uint64_t k = 0; k <= std::min(b, c); ++k) {
    sum += term;
    term *= static_cast<double>(n - k) / static_cast<double>(k + 1);
  }
  return std::min(1.0, 2 * sum);
}

Result<Comparison> compare(const Outcomes& before, const Outcomes& now) {
  Comparison out;
  out.task = now.task();
  out.samples = now.samples();
  if (before.task() != now.task() || before.samples() != now.samples() || before.labels() != now.labels() ||
      before.rows_per_sample() != now.rows_per_sample()) {
    return invalid("The two models cannot be compared: they give ", before.rows_per_sample(), " and ",
                   now.rows_per_sample(), " answers for each of ", before.samples(), " and ", now.samples(),
                   " samples, or of different targets.");
  }
  if (out.task == Task::regression) compare_errors(before, now, out);
  std::map<std::int32_t, ClassComparison> classes;
  for (std::uint64_t sample = 0; sample < out.samples && !now.labels().empty(); ++sample) {
    bool changed = false, lost = false, gained = false;
    for (std::uint64_t row = sample * now.rows_per_sample(); row < (sample + 1) * now.rows_per_sample(); ++row) {
      const std::int32_t label = now.labels()[row], then = before.predicted()[row], after = now.predicted()[row];
      changed = changed || then != after;
      if (label < 0) continue;
      compare_row(label, then == label, after == label, out, classes);
      lost = lost || (then == label && after != label);
      gained = gained || (then != label && after == label);
    }
    if (changed) out.changed.push_back(sample);
    if (lost) out.lost.push_back(sample);
    if (gained) out.gained.push_back(sample);
  }
  for (const auto& [label, its] : classes) out.classes.push_back(its);
  out.p_value = mcnemar(out.only_old, out.only_new, out.exact);
  return out;
}

}  // namespace graft::train

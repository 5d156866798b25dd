#include "runtime/train/run/metrics.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>

#include "platform/base/text.h"

namespace graft::train {
namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr std::uint64_t kMostClasses = 4096;                   // of a confusion matrix
constexpr std::uint64_t kMostScores = std::uint64_t{1} << 27;  // 2 GiB of memory

struct Name {
  std::string_view name;
  MetricKind kind;
};
constexpr Name kNames[] = {{"loss", MetricKind::loss},
                           {"accuracy", MetricKind::accuracy},
                           {"precision", MetricKind::precision},
                           {"recall", MetricKind::recall},
                           {"f1", MetricKind::f1},
                           {"auroc", MetricKind::auroc},
                           {"iou", MetricKind::iou},
                           {"mae", MetricKind::mae},
                           {"mse", MetricKind::mse},
                           {"rmse", MetricKind::rmse},
                           {"r2", MetricKind::r2},
                           {"perplexity", MetricKind::perplexity}};

bool has_averages(MetricKind kind) {
  return kind == MetricKind::precision || kind == MetricKind::recall || kind == MetricKind::f1 ||
         kind == MetricKind::iou;
}

/// "_micro" behind a name.
Average take_average(std::string_view& name) {
  constexpr std::pair<std::string_view, Average> kAverages[] = {
      {"_macro", Average::macro}, {"_micro", Average::micro}, {"_weighted", Average::weighted}};
  for (const auto& [suffix, average] : kAverages) {
    if (!name.ends_with(suffix)) continue;
    name.remove_suffix(suffix.size());
    return average;
  }
  return Average::macro;
}

bool fits(MetricKind kind, Task task, const LossOptions& loss) {
  switch (kind) {
    case MetricKind::loss: return true;
    case MetricKind::perplexity: return loss.kind == Loss::cross_entropy;
    case MetricKind::top_k: return task == Task::classes;
    case MetricKind::accuracy:
    case MetricKind::precision:
    case MetricKind::recall:
    case MetricKind::f1:
    case MetricKind::auroc:
    case MetricKind::iou: return task == Task::classes || task == Task::yes_or_no;
    default: return task == Task::regression;
  }
}

double share(double part, double whole) { return whole == 0 ? 0 : part / whole; }

/// The chance that a real one scores above another; equal scores count half. By ranks, in place.
template <typename Score>
double area(std::vector<Score> scores) {
  std::ranges::sort(scores, {}, &Score::score);
  double ranks = 0, real = 0;
  for (std::size_t i = 0; i < scores.size();) {
    std::size_t end = i;
    double reals = 0;
    while (end < scores.size() && scores[end].score == scores[i].score) reals += scores[end++].real ? 1 : 0;
    // Ranks i + 1 to end, all of them the mean of these.
    ranks += reals * (static_cast<double>(i + 1) + static_cast<double>(end)) / 2;
    real += reals;
    i = end;
  }
  const double others = static_cast<double>(scores.size()) - real;
  return real == 0 || others == 0 ? kUndefined : (ranks - real * (real + 1) / 2) / (real * others);
}

double mean_of_defined(const std::vector<double>& values) {
  double sum = 0, count = 0;
  for (const double value : values) {
    if (std::isnan(value)) continue;
    sum += value;
    count += 1;
  }
  return count == 0 ? kUndefined : sum / count;
}

}  // namespace

std::string_view metric_names() {
  return "loss, accuracy, topK (as top5), precision, recall, f1, iou (each also with _micro or _weighted behind it), "
         "auroc, mae, mse, rmse, r2 and perplexity";
}

Result<Metric> parse_metric(std::string_view name) {
  Metric metric;
  metric.name = name;
  if (name.starts_with("top")) {
    std::string_view digits = name.substr(3);
    if (digits.starts_with("_") || digits.starts_with("-")) digits.remove_prefix(1);
    const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), metric.k);
    if (failure == std::errc() && end == digits.data() + digits.size() && metric.k > 0) {
      metric.kind = MetricKind::top_k;
      return metric;
    }
  }
  std::string_view plain = name;
  metric.average = take_average(plain);
  for (const Name& entry : kNames) {
    if (entry.name != plain || (plain != name && !has_averages(entry.kind))) continue;
    metric.kind = entry.kind;
    return metric;
  }
  return invalid("There is no metric \"", name, "\"; there are ", metric_names(), ".");
}

Result<std::vector<Metric>> parse_metrics(std::string_view names) {
  std::vector<Metric> metrics;
  std::set<std::string, std::less<>> seen;
  for (const std::string& name : split_text(names, ',')) {
    GRAFT_TRY_ASSIGN(Metric metric, parse_metric(name));
    if (!seen.insert(name).second) return invalid("The metric \"", name, "\" is asked for twice.");
    metrics.push_back(std::move(metric));
  }
  return metrics;
}

bool larger_is_better(const Metric& metric) {
  switch (metric.kind) {
    case MetricKind::loss:
    case MetricKind::mae:
    case MetricKind::mse:
    case MetricKind::rmse:
    case MetricKind::perplexity: return false;
    default: return true;
  }
}

bool needs_predictions(const Metric& metric) {
  return metric.kind != MetricKind::loss && metric.kind != MetricKind::perplexity;
}

Result<MetricSet> MetricSet::create(std::vector<Metric> metrics, const TrainOptions& options, bool confusion) {
  MetricSet set;
  set.metrics_ = std::move(metrics);
  set.options_ = options;
  set.wants_confusion_ = confusion;
  set.clear();
  return set;
}

void MetricSet::clear() {
  task_ = Task::none;
  rows_ = right_rows_ = kept_scores_ = 0;
  right_at_.assign(metrics_.size(), 0);
  counts_.clear();
  columns_.clear();
  scores_.clear();
  confusion_.reset();
}

bool MetricSet::wants(MetricKind kind) const {
  return std::ranges::any_of(metrics_, [&](const Metric& metric) { return metric.kind == kind; });
}

Status MetricSet::add_score(std::size_t column, double score, bool real) {
  if (++kept_scores_ > kMostScores) {
    return error(Code::out_of_memory, "auroc keeps every score of every class: more than ", kMostScores,
                 " of them; take fewer samples (count=N).");
  }
  scores_.resize(std::max(scores_.size(), column + 1));
  scores_[column].push_back({score, real});
  return ok_status();
}

Status MetricSet::add_class_row(const EvaluatedRows& rows, std::uint64_t row) {
  const std::int32_t label = rows.label(row);
  if (label == rows.ignore_index) return ok_status();
  if (label < 0 || static_cast<std::uint64_t>(label) >= rows.classes) {
    return invalid("A label is ", label, ", but the model has ", rows.classes, " classes.");
  }
  const auto real = static_cast<std::size_t>(label);
  const auto taken = static_cast<std::size_t>(rows.predicted(row));
  ++rows_;
  right_rows_ += real == taken ? 1 : 0;
  ++counts_[real].real;
  ++counts_[taken].taken;
  if (real == taken) ++counts_[real].right;
  if (confusion_) ++confusion_->counts[real * rows.classes + taken];
  for (std::size_t i = 0; i < metrics_.size(); ++i) {
    if (metrics_[i].kind == MetricKind::top_k && rows.rank_of_label(row) < metrics_[i].k) ++right_at_[i];
  }
  if (!wants(MetricKind::auroc)) return ok_status();
  const double all = rows.log_sum(row);
  // Of two classes one says it all.
  for (std::uint64_t c = rows.classes == 2 ? 1 : 0; c < rows.classes; ++c) {
    GRAFT_TRY(add_score(static_cast<std::size_t>(c), std::exp(rows.logit(row, c) - all), c == real));
  }
  return ok_status();
}

Status MetricSet::add_yes_or_no(const EvaluatedRows& rows) {
  for (std::uint64_t sample = 0; sample < rows.samples; ++sample) {
    bool all_right = true;
    for (std::uint64_t row = sample * rows.rows; row < (sample + 1) * rows.rows; ++row) {
      const bool real = rows.target(row) > 0.5, taken = rows.predictions[row] > 0;
      const auto column = static_cast<std::size_t>(rows.column(row));
      counts_[column].real += real ? 1 : 0;
      counts_[column].taken += taken ? 1 : 0;
      counts_[column].right += real && taken ? 1 : 0;
      all_right = all_right && real == taken;
      if (rows.inner > 1) {  // every place of a mask is an answer
        ++rows_;
        right_rows_ += real == taken ? 1 : 0;
      }
      if (confusion_) ++confusion_->counts[(real ? 2 : 0) + (taken ? 1 : 0)];
      if (wants(MetricKind::auroc)) GRAFT_TRY(add_score(column, rows.predictions[row], real));
    }
    if (rows.inner > 1) continue;
    ++rows_;
    right_rows_ += all_right ? 1 : 0;
  }
  return ok_status();
}

void MetricSet::add_number(const EvaluatedRows& rows, std::uint64_t row) {
  Column& column = columns_[static_cast<std::size_t>(row % rows.rows)];
  const double y = rows.target(row), off = y - static_cast<double>(rows.predictions[row]);
  ++column.count;
  const double step = y - column.mean;
  column.mean += step / static_cast<double>(column.count);
  column.spread += step * (y - column.mean);
  column.squares += off * off;
  column.sizes += std::abs(off);
}

Status MetricSet::add(const EvaluatedBatch& batch) {
  GRAFT_TRY_ASSIGN(const EvaluatedRows rows, rows_of(batch, options_));
  task_ = rows.task;
  const std::uint64_t count = rows.samples * rows.rows;
  if (task_ == Task::classes || task_ == Task::yes_or_no) {
    counts_.resize(static_cast<std::size_t>(rows.classes));
    const std::uint64_t sides = task_ == Task::classes ? rows.classes : 2;
    if (wants_confusion_ && !confusion_) {
      if (sides > kMostClasses) {
        return invalid("A confusion matrix of ", sides, " classes is too large; ", kMostClasses, " are possible.");
      }
      confusion_ = ConfusionMatrix{sides, std::vector<std::uint64_t>(sides * sides)};
    }
  }
  if (task_ == Task::yes_or_no) return add_yes_or_no(rows);
  if (task_ == Task::regression) columns_.resize(static_cast<std::size_t>(rows.rows));
  for (std::uint64_t row = 0; row < count; ++row) {
    if (task_ == Task::classes) GRAFT_TRY(add_class_row(rows, row));
    if (task_ == Task::regression) add_number(rows, row);
  }
  return ok_status();
}

MetricValue MetricSet::by_class(const Metric& metric) const {
  MetricValue out{metric.name};
  const auto score = [&](const Counts& c) {
    const auto right = static_cast<double>(c.right), taken = static_cast<double>(c.taken),
               real = static_cast<double>(c.real);
    switch (metric.kind) {
      case MetricKind::precision: return share(right, taken);
      case MetricKind::recall: return share(right, real);
      case MetricKind::f1: return share(2 * right, taken + real);
      default: return share(right, taken + real - right);
    }
  };
  Counts all;
  double weighted = 0;
  for (const Counts& c : counts_) {
    all.right += c.right;
    all.taken += c.taken;
    all.real += c.real;
    // Of a class that neither occurs nor is predicted nothing is known; of targets each column counts.
    const bool occurs = c.real + c.taken > 0 || task_ == Task::yes_or_no;
    out.per_class.push_back(occurs ? score(c) : kUndefined);
    weighted += static_cast<double>(c.real) * score(c);
  }
  out.value = metric.average == Average::micro      ? score(all)
              : metric.average == Average::weighted ? share(weighted, static_cast<double>(all.real))
                                                    : mean_of_defined(out.per_class);
  return out;
}

MetricValue MetricSet::auroc(const Metric& metric) const {
  MetricValue out{metric.name};
  for (const auto& scores : scores_) {
    out.per_class.push_back(scores.empty() ? kUndefined : area(scores));
  }
  out.value = mean_of_defined(out.per_class);
  return out;
}

MetricValue MetricSet::of_columns(const Metric& metric) const {
  double count = 0, squares = 0, sizes = 0, roots = 0;
  std::vector<double> explained;
  for (const Column& column : columns_) {
    count += static_cast<double>(column.count);
    squares += column.squares;
    sizes += column.sizes;
    roots += std::sqrt(share(column.squares, static_cast<double>(column.count)));
    const double constant = column.squares == 0 ? 1 : 0;
    explained.push_back(column.count < 2     ? kUndefined
                        : column.spread == 0 ? constant
                                             : 1 - column.squares / column.spread);
  }
  switch (metric.kind) {
    case MetricKind::mae: return {metric.name, share(sizes, count)};
    case MetricKind::mse: return {metric.name, share(squares, count)};
    case MetricKind::rmse: return {metric.name, share(roots, static_cast<double>(columns_.size()))};
    default: return {metric.name, mean_of_defined(explained)};
  }
}

Result<MetricValue> MetricSet::value_of(const Metric& metric, const Metrics& totals) const {
  if (!fits(metric.kind, task_, options_.loss)) {
    return invalid("The metric ", metric.name, " has no meaning with the loss ", loss_name(options_.loss.kind),
                   task_ == Task::none && needs_predictions(metric) ? ", or the model's outputs were not kept." : ".");
  }
  switch (metric.kind) {
    case MetricKind::loss: return MetricValue{metric.name, totals.loss()};
    case MetricKind::perplexity: return MetricValue{metric.name, totals.perplexity()};
    case MetricKind::accuracy:
      return MetricValue{metric.name, share(static_cast<double>(right_rows_), static_cast<double>(rows_))};
    case MetricKind::top_k: {
      const auto at = static_cast<std::size_t>(&metric - metrics_.data());
      return MetricValue{metric.name, share(static_cast<double>(right_at_[at]), static_cast<double>(rows_))};
    }
    case MetricKind::auroc: return auroc(metric);
    case MetricKind::precision:
    case MetricKind::recall:
    case MetricKind::f1:
    case MetricKind::iou: return by_class(metric);
    default: return of_columns(metric);
  }
}

Result<std::vector<MetricValue>> MetricSet::values(const Metrics& totals) const {
  std::vector<MetricValue> out;
  for (const Metric& metric : metrics_) {
    GRAFT_TRY_ASSIGN(MetricValue value, value_of(metric, totals));
    out.push_back(std::move(value));
  }
  return out;
}

}  // namespace graft::train

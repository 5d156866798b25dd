// Metrics, confusion matrices and comparisons of models, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "graft/evaluate.h"
#include "tools/common/command.h"

namespace graft::cli {

/// One metric of an evaluation.
struct MetricRow {
  std::string name;
  double value = 0;
  std::vector<double> by_class = {};
};
/// Rows by what samples are and what they were taken for.
struct Confusion {
  std::size_t classes = 0;
  std::vector<std::uint64_t> counts;
};
std::vector<MetricRow> metrics_of(const graft_evaluation* evaluation);
/// Of an evaluation that was asked for it.
Confusion confusion_of(const graft_evaluation* evaluation);
/// Empty where nobody says.
std::vector<std::string> class_names(const graft_evaluation* evaluation);

/// A number, or null where it is none.
nlohmann::ordered_json number_json(double number);
nlohmann::ordered_json json_of(const std::vector<MetricRow>& values);
/// ", f1 0.91, auroc 0.98".
std::string text_of(const std::vector<MetricRow>& values);

/// `names` may be empty: classes then have numbers.
std::string confusion_text(const Confusion& matrix, const std::vector<std::string>& names);
std::string confusion_svg(const Confusion& matrix, const std::vector<std::string>& names);
nlohmann::ordered_json json_of(const Confusion& matrix);

nlohmann::ordered_json json_of(const graft_comparison& comparison, const std::vector<std::string>& names);
std::string text_of(const graft_comparison& comparison, const std::vector<std::string>& names);

}  // namespace graft::cli

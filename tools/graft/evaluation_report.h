// Metrics, confusion matrices and comparisons of models, for people and for programs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/session/gate.h"
#include "tools/common/command.h"

namespace graft::cli {

/// A number, or null where it is none.
nlohmann::ordered_json number_json(double number);
nlohmann::ordered_json json_of(const std::vector<train::MetricValue>& values);
/// ", f1 0.91, auroc 0.98".
std::string text_of(const std::vector<train::MetricValue>& values);

/// `names` may be empty: classes then have numbers.
std::string confusion_text(const train::ConfusionMatrix& matrix, const std::vector<std::string>& names);
std::string confusion_svg(const train::ConfusionMatrix& matrix, const std::vector<std::string>& names);
nlohmann::ordered_json json_of(const train::ConfusionMatrix& matrix);

nlohmann::ordered_json json_of(const train::Comparison& comparison, const std::vector<std::string>& names);
std::string text_of(const train::Comparison& comparison, const std::vector<std::string>& names);
nlohmann::ordered_json json_of(const GateReport& report, const std::vector<std::string>& names);

}  // namespace graft::cli

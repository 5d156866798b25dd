// The rows of `graft bench` as a table or JSON: times, rates, and shares of what the device reached in the same run.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/bench/device_bench.h"

namespace graft::cli {

struct Timing {
  double best = 0;  ///< seconds of device time
  double median = 0;
  double first = 0;  ///< of the first run, which compiles; 0: not measured
};

struct Row {
  std::string name;
  std::uint64_t flops = 0;
  std::uint64_t bytes = 0;  ///< read plus written, each operand once
  Timing time;
  double estimated = 0;  ///< seconds, as graft plan --time has it; 0: not estimated
  struct Rival {
    std::string name;
    Timing time;
  };
  std::vector<Rival> rivals = {};  ///< other kernels on the same problem
};

void print_row_titles();
void print_row(const Row& row, const DeviceFigures& figures);
nlohmann::ordered_json row_json(const Row& row, const DeviceFigures& figures);

/// How well graft plan --time, which knows these figures alone, foretells the medians: rank correlation, and the middle
/// half of measured by estimated.
struct EstimateQuality {
  double rank_correlation = 0;
  double low = 0, high = 0;  ///< quartiles of measured by estimated time
};
EstimateQuality estimate_quality(const std::vector<Row>& rows);
void print_estimate_quality(const std::vector<Row>& rows);
nlohmann::ordered_json estimate_quality_json(const std::vector<Row>& rows);

void print_figures(const DeviceFigures& figures);
nlohmann::ordered_json figures_json(const DeviceFigures& figures);

}  // namespace graft::cli

// graft plan --time: by which figures of a device a plan's time is estimated, and how it is told.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "runtime/plan/plan_time.h"
#include "tools/bench/device_bench.h"
#include "tools/common/status.h"

namespace graft::cli {

/// A speed, and whose it is.
struct KnownSpeed {
  std::string device;
  gpu::Speed speed;
  bool measured = false;  ///< else by public figures
};

/// Of what measure_device() found on the target's device.
gpu::Speed measured_speed(const DeviceFigures& figures, const gpu::Target& target);

/// `given`: what graft bench device --json printed, or a file of it, or a name of gpu::known_figures(), or
/// "llvmpipe"; empty: what is known of the target, by its name. invalid_argument where nothing is known of the target,
/// or a figure that an estimate needs is missing or no number above 0; as reading gives it.
Result<KnownSpeed> read_speed(const std::string& given, const gpu::Target& target);

/// Of a step: its plan so many times, and once what updates the parameters after that.
struct ModelTime {
  TimeEstimate all;
  struct Node {
    std::string name;
    std::string op;
    TimeEstimate time;
  };
  std::vector<Node> nodes;  ///< the longest first

  void add(const Plan& plan, const gpu::Target& target, const gpu::Speed& speed, double times);
};

/// `what`: "a step" or "it".
void print_time(const ModelTime& time, const KnownSpeed& known, const char* what);
nlohmann::ordered_json time_json(const ModelTime& time, const KnownSpeed& known);

/// Spearman's coefficient of rank correlation, with mean ranks of equal numbers: 1 where both rise together, 0 where
/// one says nothing of the other or there are fewer than two. Requires lists of one length.
double rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace graft::cli

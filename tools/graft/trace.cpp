#include "tools/graft/trace.h"

#include <nlohmann/json.hpp>

#include "tools/graft/options.h"

namespace graft::cli {

Status write_trace(const std::string& path, Program& program) {
  GRAFT_TRY_ASSIGN(const auto times, program.times());
  const Plan& plan = program.plan();
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  double now = 0;  // microseconds; nodes run one after another
  for (const NodeTime& time : times) {
    const double duration = time.seconds * 1e6;
    nlohmann::ordered_json event = {{"ph", "X"}, {"pid", 1}, {"tid", 1}, {"ts", now}, {"dur", duration}};
    if (time.node == kNoIndex) {
      event["name"] = "copy";
      event["cat"] = "copy";
    } else {
      const PlanNode& node = plan.nodes[time.node];
      event["name"] = node.name;
      event["cat"] = node.backward ? "backward" : "forward";
      event["args"] = {{"op", node.op},
                       {"flops", node.flops},
                       {"bytes", node.bytes},
                       {"GFLOP/s", time.seconds > 0 ? static_cast<double>(node.flops) / time.seconds * 1e-9 : 0.0},
                       {"GB/s", time.seconds > 0 ? static_cast<double>(node.bytes) / time.seconds * 1e-9 : 0.0}};
      events.push_back(
          {{"ph", "C"}, {"pid", 1}, {"ts", now}, {"name", "live bytes"}, {"args", {{"bytes", node.live_bytes}}}});
    }
    events.push_back(std::move(event));
    now += duration;
  }
  return write_text(path, nlohmann::ordered_json({{"traceEvents", events}, {"displayTimeUnit", "ms"}}).dump());
}

}  // namespace graft::cli

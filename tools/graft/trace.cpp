#include "tools/graft/trace.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "platform/base/text.h"
#include "tools/graft/options.h"

namespace graft::cli {
namespace {

constexpr std::size_t kShownNodes = 12;

/// Per second, in thousand millions.
double giga(std::uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds * 1e-9 : 0.0;
}

const char* category(const PlanNode& node) {
  return node.recomputed ? "recompute" : node.backward ? "backward" : "forward";
}

}  // namespace

Result<std::vector<NodeCostRow>> profile_of(const std::vector<Program*>& programs) {
  std::vector<NodeCostRow> rows;
  for (Program* program : programs) {
    GRAFT_TRY_ASSIGN(const auto times, program->times());
    for (const NodeTime& time : times) {
      rows.push_back({time.node == kNoIndex ? nullptr : &program->plan().nodes[time.node], time.seconds});
    }
  }
  return rows;
}

Status write_trace(const std::string& path, const std::vector<NodeCostRow>& rows) {
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  double now = 0;  // microseconds; nodes run one after another
  for (const NodeCostRow& row : rows) {
    const double duration = row.seconds * 1e6;
    nlohmann::ordered_json event = {{"ph", "X"}, {"pid", 1}, {"tid", 1}, {"ts", now}, {"dur", duration}};
    if (row.node == nullptr) {
      event["name"] = "copy";
      event["cat"] = "copy";
    } else {
      const PlanNode& node = *row.node;
      event["name"] = node.name;
      event["cat"] = category(node);
      event["args"] = {{"op", node.op},
                       {"flops", node.flops},
                       {"bytes", node.bytes},
                       {"GFLOP/s", giga(node.flops, row.seconds)},
                       {"GB/s", giga(node.bytes, row.seconds)}};
      events.push_back(
          {{"ph", "C"}, {"pid", 1}, {"ts", now}, {"name", "live bytes"}, {"args", {{"bytes", node.live_bytes}}}});
    }
    events.push_back(std::move(event));
    now += duration;
  }
  return write_text(path, nlohmann::ordered_json({{"traceEvents", events}, {"displayTimeUnit", "ms"}}).dump());
}

void print_consumers(const std::vector<NodeCostRow>& rows) {
  double total = 0;
  std::vector<NodeCostRow> nodes;
  const PlanNode* fullest = nullptr;
  for (const NodeCostRow& row : rows) {
    total += row.seconds;
    if (row.node == nullptr) continue;
    nodes.push_back(row);
    if (fullest == nullptr || row.node->live_bytes > fullest->live_bytes) fullest = row.node;
  }
  std::stable_sort(nodes.begin(), nodes.end(),
                   [](const NodeCostRow& a, const NodeCostRow& b) { return a.seconds > b.seconds; });
  std::printf("\n%-40s %-20s %9s %7s %9s %8s %12s\n", "most time", "op", "ms", "share", "GFLOP/s", "GB/s", "live then");
  for (std::size_t i = 0; i < std::min(nodes.size(), kShownNodes); ++i) {
    const PlanNode& node = *nodes[i].node;
    std::printf("%-40s %-20s %9.3f %6.1f%% %9.2f %8.2f %12s\n", node.name.c_str(), node.op.c_str(),
                nodes[i].seconds * 1e3, total > 0 ? 100 * nodes[i].seconds / total : 0.0,
                giga(node.flops, nodes[i].seconds), giga(node.bytes, nodes[i].seconds),
                bytes_text(node.live_bytes).c_str());
  }
  std::printf("%zu nodes and copies, %.3f ms on the device", rows.size(), total * 1e3);
  if (fullest != nullptr) {
    std::printf("; most memory in use at %s: %s", fullest->name.c_str(), bytes_text(fullest->live_bytes).c_str());
  }
  std::printf(".\n");
}

}  // namespace graft::cli

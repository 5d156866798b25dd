#include "tools/graft/layer_table.h"
#include "tools/common/status.h"

#include <algorithm>
#include <map>
#include <string_view>

namespace graft::cli {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Parts of the path that are numbers become stars.
std::string pattern_of(const std::string& name) {
  std::string out;
  for (std::size_t first = 0; first <= name.size();) {
    const std::size_t end = std::min(name.find_first_of("./", first), name.size());
    const std::string_view part = std::string_view(name).substr(first, end - first);
    out += is_number(part) ? "*" : part;
    if (end < name.size()) out += name[end];
    first = end + 1;
  }
  return out;
}

}  // namespace

std::vector<LayerRow> layer_rows(const Plan& plan) {
  std::vector<LayerRow> rows;
  std::map<std::uint32_t, std::size_t> row_of;       // by the graph's node
  std::map<std::string, std::uint64_t> saved_bytes;  // by producer
  for (const SavedValue& saved : plan.saved) saved_bytes[saved.producer] += saved.bytes;
  for (const PlanNode& node : plan.nodes) {
    if (node.forward_of != kNoIndex || (node.steps == 0 && !saved_bytes.contains(node.name))) continue;
    row_of[node.node] = rows.size();
    const auto saved = saved_bytes.find(node.name);
    rows.push_back({node.name, node.op, saved == saved_bytes.end() ? 0 : saved->second, node.flops, 0, node.bytes});
  }
  for (const PlanNode& node : plan.nodes) {
    const auto at = row_of.find(node.forward_of);
    if (node.forward_of == kNoIndex || at == row_of.end()) continue;
    LayerRow& row = rows[at->second];
    row.backward_flops += node.flops;
    row.moved_bytes += node.bytes;
    row.recomputed = row.recomputed || node.recomputed;
  }
  return rows;
}

std::vector<LayerRow> repeated_layers(const std::vector<LayerRow>& rows) {
  std::vector<LayerRow> out;
  std::vector<std::size_t> counts;
  std::map<std::string, std::size_t> index;
  for (const LayerRow& row : rows) {
    const auto [at, fresh] = index.try_emplace(pattern_of(row.name), out.size());
    if (fresh) {
      out.push_back(row);
      counts.push_back(1);
      continue;
    }
    LayerRow& sum = out[at->second];
    sum.saved_bytes += row.saved_bytes;
    sum.forward_flops += row.forward_flops;
    sum.backward_flops += row.backward_flops;
    sum.moved_bytes += row.moved_bytes;
    sum.recomputed = sum.recomputed || row.recomputed;
    ++counts[at->second];
  }
  for (const auto& [pattern, at] : index) {
    if (counts[at] > 1) out[at].name = cat(pattern, " x ", counts[at]);
  }
  return out;
}

}  // namespace graft::cli

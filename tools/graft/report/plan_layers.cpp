#include "tools/graft/report/plan_layers.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "tools/common/text.h"

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

std::vector<LayerRow> layer_rows(const PlanDocument& plan) {
  std::vector<LayerRow> rows;
  for (const PlanDocument& layer : plan.at("layers")) {
    rows.push_back({text_in(layer, "name"), text_in(layer, "op"), count_in(layer, "saved_bytes"),
                    count_in(layer, "forward_flops"), count_in(layer, "backward_flops"), count_in(layer, "bytes_moved"),
                    flag_in(layer, "recomputed")});
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

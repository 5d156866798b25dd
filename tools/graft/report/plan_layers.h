// A plan by layer: what each node of the forward pass costs, its backward pass included.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/graft/report/plan_document.h"

namespace graft::cli {

struct LayerRow {
  std::string name;
  std::string op;
  std::uint64_t saved_bytes = 0;  ///< of its results that are kept for backward
  std::uint64_t forward_flops = 0;
  std::uint64_t backward_flops = 0;  ///< of the nodes that serve it
  std::uint64_t moved_bytes = 0;     ///< read and written, both passes
  bool recomputed = false;           ///< it runs again in the backward pass; that run counts as backward
};

/// In the order of execution; views, which cost nothing, are left out. `plan`: one of a document's.
std::vector<LayerRow> layer_rows(const PlanDocument& plan);

/// Layers that differ in a number of their path alone ("layers.0.mlp", "layers.1.mlp") as one row, "layers.*.mlp x 2",
/// with their sums, where the first stood.
std::vector<LayerRow> repeated_layers(const std::vector<LayerRow>& rows);

}  // namespace graft::cli

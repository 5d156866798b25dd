// PiSSA: adapters that begin as the strongest directions of their weights (LoraOptions::pissa).
#pragma once

#include <string_view>
#include <vector>

#include "runtime/lora/adapter.h"

namespace graft {

/// Gives the matrices of these sites, and the constants that hold how they begin, their contents: scale B A is the part
/// of the weight with the largest singular values. Always the same for the same weights; zeros where `base` has only
/// shapes to plan with. invalid_argument: a weight that is not finite.
Status start_pissa(const Model& base, const std::vector<LoraSite>& sites, const LoraOptions& options, Model& model);

/// Whether the A or B of this name began so.
bool has_pissa(const Graph& graph, std::string_view matrix);

/// Adds to `adapter` the A or B of this name with how it began behind it, once negative: [A; A0] or [B, -B0], of twice
/// the rank.
Status add_with_start(const Model& adapted, const std::string& matrix, Model& adapter);

}  // namespace graft

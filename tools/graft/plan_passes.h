// What the passes before differentiation make of a model, pass by pass.
#pragma once

#include <nlohmann/json.hpp>

#include "runtime/passes/pipeline.h"

namespace graft::cli {

/// A line for each pass: its name, nodes before and after, and the ops that there are more or fewer of.
void print_passes(const std::vector<passes::PassNote>& notes);
nlohmann::ordered_json passes_json(const std::vector<passes::PassNote>& notes);

}  // namespace graft::cli

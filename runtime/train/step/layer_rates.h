// Learning rates that fall from the last layer to the first.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "runtime/core/graph.h"

namespace graft::train {

/// The layer that a parameter belongs to, by its name: up to the first part that is a number ("encoder.layers.3" of
/// "encoder.layers.3.fc.weight"), else all but the last part.
std::string_view layer_of(std::string_view parameter);

/// For each parameter of a forward graph what its learning rate is multiplied by: 1 in the layer that is used last,
/// `decay` in the one before it, and so on.
std::map<std::string, double, std::less<>> layer_rates(const Graph& forward, double decay);

}  // namespace graft::train

// Weights by name, as an app sees them: in the source model's order of axes.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/core/graph.h"

namespace graft {

/// The constant, parameter or state of that name. not_found: there is none; unsupported: its numbers are not 32 bits
/// wide.
Result<ValueId> find_weight(const Graph& graph, std::string_view name);

/// Contents of a weight that find_weight() gives, in the source model's order of axes.
std::vector<std::byte> weight_to_source(const Value& value, std::span<const std::byte> contents);
/// The way back. invalid_argument: not the value's size, or numbers that are not finite; the sentence names the first.
Result<std::vector<std::byte>> weight_from_source(const Value& value, std::span<const std::byte> contents);

}  // namespace graft

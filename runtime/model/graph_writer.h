// From a Graph to the object form of the schema's tables.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/core/graph.h"
#include "schema/model_generated.h"

namespace graft::model_format {

/// Requires a graph that validate(const Model&) accepts.
std::unique_ptr<fb::GraphT> write_graph(const Graph& graph, const Bindings& symbol_defaults);
std::vector<std::unique_ptr<fb::NamedValueT>> write_named_values(const std::vector<Output>& list);

}  // namespace graft::model_format

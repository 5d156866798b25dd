// Graphs within nodes (the bodies of If, Loop, Scan) and functions of the model: what they read, and their names
// changed so that their nodes can stand in the graph around them.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tools/convert/onnx/proto/onnx_graph.h"

namespace graft::convert {

using NameMap = std::map<std::string, std::string, std::less<>>;

/// Attributes of nodes that the importer makes.
OnnxAttr integer_attribute(std::int64_t value);
OnnxAttr integers_attribute(std::vector<std::int64_t> values);
/// An attribute of a node; fallback where it is left out or of another kind.
std::int64_t integer_of(const OnnxNode& node, std::string_view name, std::int64_t fallback);

/// Names that the bodies of a node read from around it, each once.
std::vector<std::string> captured_names(const OnnxNode& node);

/// What a graph itself names: inputs, initializers and results, not those of its bodies.
std::set<std::string> defined_names(const OnnxGraph& graph);

/// Calls `see` with the graph, then with all bodies within it.
void for_each_graph(const OnnxGraph& graph, const std::function<void(const OnnxGraph&)>& see);
/// Calls `change` with a copy of each body of the graph's nodes, which takes its place; not with bodies of bodies.
void change_bodies(OnnxGraph& graph, const std::function<void(OnnxGraph&)>& change);

/// Names of values changed by the map, in bodies too, where they do not hide them; others stay.
OnnxNode renamed(const OnnxNode& node, const NameMap& names);

/// The nodes that the graph's outputs depend on, in its order.
std::vector<const OnnxNode*> needed_nodes(const OnnxGraph& graph);

/// Calls of the model's functions become their nodes, in bodies too, but for ops that graft has a rule for. An error
/// where functions call themselves or too many nodes come of it.
Status inline_functions(OnnxGraph& graph);

}  // namespace graft::convert

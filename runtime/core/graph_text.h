// A graph as text: for `graft plan --passes`, for tests of passes, and for reading in a debugger.
//
//   input x: f32[2, 8]
//   parameter w: f32[8, 4]
//   constant half: f32[] = 0.5
//   y = matmul(x, w) {trans_b=0} -> f32[2, 4]
//   output y
//
// Values that are not made by nodes come first, then nodes in their order, then outputs ("output name = value" where
// the names differ). Small constants show their contents. An optional input that is left out is "_". Attributes: 3,
// 0.5, "text", [1, 2], shape[2, batch].
#pragma once

#include <string>

#include "runtime/core/graph.h"

namespace graft {

std::string graph_text(const Graph& graph);
/// One node, as in graph_text(), without the end of the line.
std::string node_text(const Graph& graph, const Node& node);
/// What stands between its braces: "axis=1, keepdims=0".
std::string attrs_text(const Attrs& attrs);

}  // namespace graft

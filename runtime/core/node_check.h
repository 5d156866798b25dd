// The checks that a node passes when it is added, loaded or bound: arity, ids, attributes, inferred outputs.
#pragma once

#include <vector>

#include "runtime/core/op_def.h"

namespace graft {

/// Rank, sign and overflow.
Status check_shape(const Shape& shape);

/// Quantized values: constants whose last axis is a number of whole blocks.
Status check_storage(const Value& value);

/// Checks names, types, ranges and required attributes against the op's table.
Status check_attrs(const OpDef& def, const Attrs& attrs);

/// Ids in range and produced before, arity, attributes, kinds of mutated inputs, inputs that may be quantized.
Status check_node(const Graph& graph, const Node& node);

/// Output types and shapes by the op's own rule, themselves checked.
Result<std::vector<InferContext::Out>> infer_node(const Graph& graph, const Node& node);

}  // namespace graft

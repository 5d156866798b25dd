// What the data choose: how many there are is known when the network runs.
#pragma once

#include "tools/convert/onnx/import/import.h"

namespace graft::convert {

/// Where a counted axis of the node's inputs is in its results; nullopt: none of them has such. An error where the op
/// would compute with rows that are not there. Asked before the node's rule.
Result<std::optional<CountedAxis>> carried_count(NodeContext& c);
/// The error about input i, whose rows are counted.
Status refuse_counted(const NodeContext& c, std::size_t i, std::string_view why);

}  // namespace graft::convert

// What a node says and no rule reads: refused by name, unless it cannot change the result.
#pragma once

#include <string>

#include "platform/base/status.h"
#include "tools/convert/onnx/proto/onnx_graph.h"

namespace graft::convert {

/// After a node was converted: an attribute that nothing read since OnnxAttrs::forget_reads() is an error, which says
/// the rest of a sentence about the node. Attributes and values that cannot matter are listed in unread.cpp. So are
/// the attributes that can only be 0 or 1: another value is an error too.
Status check_attributes_read(const OnnxNode& node);
/// Whether a rule may pass over input `i` of the op.
bool may_ignore_input(const OnnxNode& node, std::size_t i);

}  // namespace graft::convert

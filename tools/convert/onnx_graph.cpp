#include "tools/convert/onnx_graph.h"

namespace graft::convert {

std::string OnnxNode::label() const {
  const std::string type = domain.empty() ? op : domain + "." + op;
  if (!name.empty()) return cat("node \"", name, "\" (", type, ")");
  return cat("the ", type, " node of \"", outputs.empty() ? std::string() : outputs[0], "\"");
}

}  // namespace graft::convert

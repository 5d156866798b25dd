#include "tools/convert/onnx/proto/onnx_graph.h"

namespace graft::convert {

std::string OnnxNode::label() const {
  if (!name.empty()) return cat("node \"", name, "\" (", shown_op(), ")");
  return cat("the ", shown_op(), " node of \"", outputs.empty() ? std::string() : outputs[0], "\"");
}

std::string attribute_weight(const std::string& node, const std::vector<std::string>& outputs,
                             std::string_view attribute) {
  return cat(!node.empty() ? node : outputs.empty() ? std::string() : outputs[0], "/", attribute);
}

std::string printable(std::string text) {
  constexpr std::size_t kLongest = 600;
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) c = '?';
  }
  if (text.size() > kLongest) text = text.substr(0, kLongest - 60) + " ... " + text.substr(text.size() - 55);
  return text;
}

}  // namespace graft::convert

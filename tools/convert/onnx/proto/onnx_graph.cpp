#include "tools/convert/onnx/proto/onnx_graph.h"

#include "runtime/text/unicode/unicode.h"

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
  constexpr std::size_t kLongest = 600, kHead = kLongest - 60, kTail = 55;
  using text::Category;
  std::string out;
  const auto points = text::code_points(text);
  for (std::size_t i = 0; i < points.size(); ++i) {
    const text::CodePoint& point = points[i];
    const Category category = text::category(point.value);
    const bool plain = point.value != text::kInvalidByte && category != Category::cc && category != Category::cf &&
                       category != Category::zl && category != Category::zp;
    const std::string_view bytes = plain ? std::string_view(text).substr(point.begin, point.size) : "?";
    if (points.size() > kLongest && i == kHead) out += " ... ";
    if (points.size() <= kLongest || i < kHead || i + kTail >= points.size()) out += bytes;
  }
  return out;
}

std::string quoted_argument(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace graft::convert

// Which float initializers nobody trains. An ONNX file does not say what was a parameter and what a buffer: cosines and
// sines of positions, masks, frequencies and running statistics stand among the weights. What is taken for a constant
// is told by its contents or by where it is used, in ways that a trained tensor does not meet; all else is a parameter.
#pragma once

#include <map>
#include <string>

#include "platform/base/status.h"
#include "tools/convert/onnx/import/convert_onnx.h"

namespace graft::convert {

/// Makes the file's weights initializers of the graph, wherever they stand, so that what is said of weights, and other
/// weights given for them, concerns all of them. Functions are inlined. Some exporters (Paddle's, spox) write no
/// initializers but Constant nodes: where no float initializer has more than one element, Constants of more become
/// initializers. Those of bodies (If, Loop, Scan) become the graph's own, which bodies may read, but for names that the
/// file uses twice. Once done, it changes nothing.
Status gather_weights(OnnxGraph& graph);

/// By name: float initializers that are constants, and why. Patterns of the options come first; invalid_argument: one
/// of them matches nothing.
using Untrained = std::map<std::string, std::string, std::less<>>;
Result<Untrained> find_untrained(const OnnxGraph& graph, const ConvertOptions& options);

/// Running statistics by the names that PyTorch gives them.
bool is_running_statistic(std::string_view name);

}  // namespace graft::convert

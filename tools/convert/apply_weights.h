// Weights of another file for an ONNX graph.
#pragma once

#include <string>
#include <vector>

#include "platform/os/file.h"
#include "tools/convert/onnx/proto/onnx_graph.h"

namespace graft::convert {

/// Gives the graph's initializers the numbers of `path`, a checkpoint of PyTorch or a safetensors file: by name, and
/// where the exporter left numbers for names, by order and shape. What came from where and what does not match is told
/// in graph.notes. invalid: nothing matches, or a tensor of the same name has another shape.
Status apply_weights(os::FileSystem& files, const std::string& path, OnnxGraph& graph);

}  // namespace graft::convert

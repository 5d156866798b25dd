// ONNX -> graft model.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "runtime/model/model.h"
#include "tools/convert/common/report.h"
#include "tools/convert/onnx/proto/onnx_graph.h"

namespace graft::convert {

/// An axis of size 1 of an input that becomes the symbol.
struct OpenAxis {
  std::string symbol, input;
  std::size_t axis = 0;
};

struct ConvertOptions {
  /// Sizes for named dimensions, as in {"batch": 32}; the others stay symbols.
  Bindings bindings;
  /// Inputs to be treated as constants with these contents: for graphs whose shapes depend on an input's *values*.
  std::map<std::string, HostTensor, std::less<>> fixed_inputs;
  /// How many tensors a sequence among the inputs holds (they become inputs NAME.0, NAME.1, ...), and whether an
  /// optional holds something: 1 or 0.
  std::map<std::string, std::int64_t, std::less<>> lengths;
  /// An error where the graph cannot follow: what it says of other sizes stays as it is.
  std::vector<OpenAxis> opens;
  /// Patterns (matches()) of float initializers that are constants, and of some that are parameters whatever they look
  /// like. A parameter's pattern goes first.
  std::vector<std::string> constants;
  std::vector<std::string> parameters;
  /// What looks like a buffer (grids, masks, tables) is trained all the same, where a gradient reaches it.
  bool train_buffers = false;
  /// Weights that the file holds quantized become parameters of f32 numbers, quantized and back wherever they are read.
  bool expand = false;
  LoadLimits limits;
};

struct Converted {
  Model model;
  Report report;
};

/// The symbol that an open dimension of an input gets: its own name, "batch" for a nameless first axis, or NAME_AXIS.
std::string dimension_symbol(const OnnxValue& value, std::size_t axis);
/// Tensor i of a sequence among the inputs, as an input of its own: named NAME.i, with sizes of its own.
OnnxValue sequence_element(const OnnxValue& sequence, std::size_t i);

/// Reads and converts `path`. Graph inputs, outputs, parameters and intermediate values keep the source's names,
/// shapes and layout (Value::source_perm tells where graft's order of axes differs).
/// Supported: opset 6 and newer, tensors of float32, int32, int64 (as i32, range-checked) and bool; float64, float16
/// and bfloat16 become f32 with a note. An error names the first problem and counts the others; `report`, where
/// given, holds all of them even then.
Result<Converted> convert_onnx(const std::filesystem::path& path, const ConvertOptions& options = {},
                               Report* report = nullptr);
/// The same for a file that is parsed already; `name` stands for it in messages.
Result<Converted> convert_onnx(OnnxGraph source, const std::string& name, const ConvertOptions& options = {},
                               Report* report = nullptr);

}  // namespace graft::convert

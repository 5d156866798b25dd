// TensorFlow Lite -> graft model.
#pragma once

#include <string>

#include "platform/os/file.h"
#include "tools/convert/onnx/import/convert_onnx.h"

namespace graft::convert {

struct TfliteOptions {
  /// Each value that the file keeps quantized is rounded to its grid, as integer devices compute it: for evaluation,
  /// since no gradient passes a rounding. Otherwise weights are dequantized, and values are floats.
  bool keep_grid = false;
};

/// The file's main graph in ONNX's terms; images stay channels-last, and names are the file's. `bytes` need to live no
/// longer. Operators that cannot be said are nodes with a `refusal`.
Result<OnnxGraph> read_tflite(std::span<const std::byte> bytes, const TfliteOptions& options = {});

bool is_tflite(const std::string& path);
Result<Converted> convert_tflite(os::FileSystem& files, const std::string& path, const TfliteOptions& tflite,
                                 const ConvertOptions& options, Report* report);

}  // namespace graft::convert

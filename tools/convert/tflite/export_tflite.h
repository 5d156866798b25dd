// A trained model's weights back into the TensorFlow Lite file that it was converted from.
#pragma once

#include <string>

#include "tools/convert/language_model/export_model.h"

namespace graft::convert {

/// Writes `source` again as `path`, byte for byte but for the numbers of the model's parameters, which are quantized as
/// the file has them. Where they left the range of a scale, the scale grows, and with it that of the bias behind it.
/// not_found: a parameter that is no tensor of the file; corrupt: one of another shape; unsupported: one whose bytes
/// other tensors share and no longer agree on.
Result<ExportReport> export_tflite(os::FileSystem& files, const std::string& path, const Model& model,
                                   const std::string& source);

}  // namespace graft::convert

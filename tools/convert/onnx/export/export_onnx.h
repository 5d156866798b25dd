// A trained model's weights back into the ONNX file that it was converted from.
#pragma once

#include <string>

#include "tools/convert/language_model/export_model.h"

namespace graft::convert {

/// Writes `source` again as `path`, its graph and everything else as it is, with the model's parameters and statistics
/// in the place of the initializers of their names (in the initializers' own types and layout). `options.dtype` must be
/// unset. not_found: a parameter that is no initializer of the file; corrupt: one of another shape; unsupported: an
/// initializer in external data, or of a type that is no float.
Result<ExportReport> export_onnx(os::FileSystem& files, const std::string& path, const Model& model,
                                 const std::string& source);

}  // namespace graft::convert

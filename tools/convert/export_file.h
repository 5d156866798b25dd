// A model in a format of other programs: what `graft export` and the C interface share.
#pragma once

#include <string>
#include <vector>

#include "platform/os/file.h"
#include "runtime/model/model.h"
#include "tools/convert/language_model/export_model.h"

namespace graft::convert {

struct ExportFileOptions {
  std::string format;  ///< "gguf", "safetensors", "onnx", "tflite" or "folder"; empty: as the output's name ends
  std::string dtype;   ///< one of export_dtypes(), for matrices; empty: what they are
  std::string source;  ///< of an ONNX or TFLite file: the one that the model was converted from, whose graph stays
  bool allow_non_finite = false;
  std::string imatrix = {};  ///< llama.cpp's file of what errors weigh, for blocks of GGUF files; empty: none
};

std::vector<std::string> export_formats();
std::vector<std::string> export_dtypes();
/// What `format` means for this output.
std::string export_format(const std::string& format, const std::string& output);

/// A model, or the adapters of an adapter file. Weights that are not finite are refused unless allowed.
Result<ExportReport> export_file(os::FileSystem& files, const Model& model, const std::string& output,
                                 const ExportFileOptions& options);

}  // namespace graft::convert

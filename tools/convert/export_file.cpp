#include "tools/convert/export_file.h"

#include <algorithm>

#include "tools/convert/adapter/adapter_files.h"
#include "tools/convert/gguf/imatrix.h"
#include "tools/convert/onnx/export/export_onnx.h"
#include "tools/convert/onnx/export/write_onnx.h"
#include "tools/convert/tflite/export_tflite.h"

namespace graft::convert {
namespace {

constexpr DType kExported[] = {DType::f32,  DType::f16,  DType::bf16, DType::q8_0, DType::q4_0, DType::q4_1,
                               DType::q5_0, DType::q5_1, DType::q4_k, DType::q5_k, DType::q6_k};

Result<ExportOptions> tensor_options(const ExportFileOptions& options) {
  ExportOptions out;
  if (options.dtype.empty()) return out;
  for (const DType dtype : kExported) {
    if (dtype_name(dtype) == options.dtype) out.dtype = dtype;
  }
  if (out.dtype) return out;
  return invalid("Matrices cannot become \"", shown(options.dtype), "\".");
}

Status check_format(const std::string& format) {
  const auto known = export_formats();
  if (std::find(known.begin(), known.end(), format) != known.end()) return ok_status();
  return invalid("There is no format \"", shown(format), "\"; there are gguf, safetensors, onnx, tflite and folder.");
}

/// A name that ends like a file's of another format is no folder's by chance; one with a version in it may be.
Status check_is_folder(os::FileSystem& files, const std::string& output) {
  const std::string name = output.substr(output.find_last_of('/') + 1);
  const auto dot = name.rfind('.');
  if (dot == std::string::npos || dot == 0) return ok_status();
  const std::string_view ending = std::string_view(name).substr(dot + 1);
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (ending.empty() || ending.size() > 11 || !std::ranges::all_of(ending, is_letter)) return ok_status();
  if (const auto info = files.info(output); info.ok() && info->type == os::EntryType::directory) return ok_status();
  return invalid("\"", shown(output),
                 "\" ends in no format that can be written: .gguf, .safetensors, .onnx or .tflite; ",
                 "for a folder of this name say so with the format \"folder\".");
}

}  // namespace

std::vector<std::string> export_formats() { return {"gguf", "safetensors", "onnx", "tflite", "folder"}; }

std::vector<std::string> export_dtypes() {
  std::vector<std::string> names;
  for (const DType dtype : kExported) names.emplace_back(dtype_name(dtype));
  return names;
}

std::string export_format(const std::string& format, const std::string& output) {
  if (!format.empty()) return format;
  for (const char* ending : {"gguf", "safetensors", "onnx", "tflite"}) {
    if (output.ends_with(cat(".", ending))) return ending;
  }
  return "folder";
}

Result<ExportReport> export_file(os::FileSystem& files, const Model& model, const std::string& output,
                                 const ExportFileOptions& options) {
  const std::string format = export_format(options.format, output);
  GRAFT_TRY(check_format(format));
  if (options.format.empty() && format == "folder") GRAFT_TRY(check_is_folder(files, output));
  GRAFT_TRY_ASSIGN(ExportOptions tensors, tensor_options(options));
  if (!options.allow_non_finite) GRAFT_TRY(model.check_finite());
  Importance importance;
  if (!options.imatrix.empty()) {
    if (format != "gguf" || !tensors.dtype || !is_quantized(*tensors.dtype)) {
      return invalid("An importance matrix is for blocks of GGUF files: name such a type of matrices.");
    }
    GRAFT_TRY_ASSIGN(importance, read_imatrix(files, options.imatrix));
    tensors.importance = &importance;
  }
  if (is_adapter(model)) {
    if (format == "gguf") return export_gguf_adapter(files, output, model, tensors);
    if (format == "folder") return export_peft(files, output, model, tensors);
  }
  if (format == "gguf") return export_gguf(files, output, model, tensors);
  if (format == "safetensors") return export_safetensors(files, output, model, tensors);
  if (format == "folder") return export_folder(files, output, model, tensors);
  if (options.source.empty() && format == "tflite") {
    return invalid("A TFLite file is written over the one that the model was converted from, and no source is named.");
  }
  if (tensors.dtype) return invalid("An ONNX or TFLite file's tensors keep their types: name none.");
  if (format == "tflite") return export_tflite(files, output, model, options.source);
  if (options.source.empty()) return write_onnx(files, output, model);
  return export_onnx(files, output, model, options.source);
}

}  // namespace graft::convert

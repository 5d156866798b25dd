#include "tools/convert/export_file.h"

#include <algorithm>

#include "tools/convert/adapter/adapter_files.h"
#include "tools/convert/gguf/imatrix.h"
#include "tools/convert/onnx/export_onnx.h"
#include "tools/convert/onnx/write_onnx.h"
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

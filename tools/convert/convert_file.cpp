#include "tools/convert/convert_file.h"

#include "tools/convert/language_model/convert_decoder.h"
#include "tools/convert/onnx/convert_onnx.h"

namespace graft::convert {
namespace {

Result<ConvertedFile> convert_language_model(os::FileSystem& files, const std::string& path, bool folder,
                                             const FileOptions& options, Report& report) {
  if (!options.bindings.empty()) {
    return invalid("Sizes are bound in ONNX files; a language model's dimensions stay open.");
  }
  if (!options.lengths.empty()) return invalid("Sequences among the inputs are of ONNX files.");
  if (!options.constants.empty() || !options.parameters.empty()) {
    return invalid("Constants and parameters are chosen in ONNX files; other formats say what is trained.");
  }
  GRAFT_TRY_ASSIGN(auto converted,
                   folder ? convert_folder(files, path, options.weights) : convert_gguf(files, path, options.weights));
  report = std::move(converted.report);
  return ConvertedFile{std::move(converted.files), std::move(converted.model)};
}

}  // namespace

Result<ConvertedFile> convert_file(os::FileSystem& files, const std::string& path, const FileOptions& options,
                                   Report& report) {
  GRAFT_TRY_ASSIGN(const os::FileInfo info, files.info(path));
  const bool folder = info.type == os::EntryType::directory;
  if (folder || is_gguf(files, path)) return convert_language_model(files, path, folder, options, report);
  if (!path.ends_with(".onnx")) {
    return unsupported("\"", path, "\" is neither an .onnx file, nor a GGUF file, nor a Hugging Face folder.");
  }
  if (options.weights.quantize) {
    return invalid("Only language models' matrices are quantized, and \"", path, "\" is an ONNX file.");
  }
  ConvertOptions onnx;
  onnx.bindings = options.bindings;
  onnx.constants = options.constants;
  onnx.parameters = options.parameters;
  onnx.lengths = options.lengths;
  onnx.expand = options.weights.expand;
  GRAFT_TRY_ASSIGN(Converted converted, convert_onnx(path, onnx, &report));
  return ConvertedFile{{}, std::move(converted.model)};
}

}  // namespace graft::convert

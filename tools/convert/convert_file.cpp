#include "tools/convert/convert_file.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "runtime/data/npy.h"
#include "tools/convert/apply_weights.h"
#include "tools/convert/gguf/imatrix.h"
#include "tools/convert/language_model/convert_decoder.h"
#include "tools/convert/onnx/import/convert_onnx.h"
#include "tools/convert/onnx/import/untrained.h"
#include "tools/convert/tflite/convert_tflite.h"

namespace graft::convert {
namespace {

Result<ConvertedFile> convert_language_model(os::FileSystem& files, const std::string& path, bool folder,
                                             const FileOptions& options, Report& report) {
  if (!options.bindings.empty()) {
    return invalid("Sizes are bound in ONNX files; a language model's dimensions stay open.");
  }
  if (!options.weights_file.empty()) return invalid("Weights of another file are for an ONNX graph.");
  if (!options.opens.empty() || !options.contents.empty()) {
    return invalid("Inputs are opened and given contents in ONNX and TFLite files alone.");
  }
  if (options.keep_grid) return invalid("Values are rounded to the grid of a quantized .tflite file alone.");
  if (!options.lengths.empty()) return invalid("Sequences among the inputs are of ONNX files.");
  if (!options.constants.empty() || !options.parameters.empty() || options.train_buffers) {
    return invalid("Constants and parameters are chosen in ONNX files; other formats say what is trained.");
  }
  WeightOptions weights = options.weights;
  Importance importance;
  if (!options.imatrix.empty()) {
    if (!weights.quantize) return invalid("An importance matrix is for blocks: name a type of them.");
    GRAFT_TRY_ASSIGN(importance, read_imatrix(files, options.imatrix));
    weights.importance = &importance;
  }
  GRAFT_TRY_ASSIGN(auto converted, folder ? convert_folder(files, path, weights, options.ignored_fields)
                                          : convert_gguf(files, path, weights, options.ignored_fields));
  report = std::move(converted.report);
  return ConvertedFile{std::move(converted.files), std::move(converted.model)};
}

Result<HostTensor> read_contents(os::FileSystem& files, const std::string& path) {
  GRAFT_TRY_ASSIGN(const data::Array array, data::read_npy(files, path));
  HostTensor out;
  out.dims = array.shape.values();
  const auto numbers = array.buffer.bytes();
  const std::size_t count = out.count();
  if (array.dtype == DType::f32) {
    out.floats.resize(count);
    if (count > 0) std::memcpy(out.floats.data(), numbers.data(), count * sizeof(float));
    return out;
  }
  out.type = array.dtype == DType::boolean ? ElemType::boolean : ElemType::i64;
  for (std::size_t i = 0; i < count; ++i) {
    std::int32_t number = 0;
    const std::size_t width = dtype_size(array.dtype);
    std::memcpy(&number, numbers.data() + i * width, width);
    out.ints.push_back(number);
  }
  return out;
}

}  // namespace

Result<OpenAxis> open_axis(const std::string& symbol, const std::string& input, std::size_t axis) {
  const bool plain = std::ranges::all_of(symbol, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
  if (!plain || symbol.empty() || std::isdigit(static_cast<unsigned char>(symbol[0])) != 0) {
    return invalid("\"", symbol, "\" is no name of a dimension: letters, digits and '_', and no digit first.");
  }
  return OpenAxis{symbol, input, axis};
}

Result<ConvertedFile> convert_file(os::FileSystem& files, const std::string& path, const FileOptions& options,
                                   Report& report) {
  GRAFT_TRY_ASSIGN(const os::FileInfo info, files.info(path));
  const bool folder = info.type == os::EntryType::directory;
  if (folder || is_gguf(files, path)) return convert_language_model(files, path, folder, options, report);
  const bool tflite = is_tflite(path);
  if (!tflite && !path.ends_with(".onnx")) {
    return unsupported("\"", path,
                       "\" is neither an .onnx file, nor a .tflite file, nor a GGUF file, nor a Hugging Face folder.");
  }
  if (options.keep_grid && !tflite) {
    return invalid("Values are rounded to the grid of a quantized .tflite file, and \"", path, "\" is none.");
  }
  if (options.weights.quantize || !options.imatrix.empty() || (options.weights.expand && tflite)) {
    return invalid("Only language models' matrices are quantized", tflite ? " or expanded" : "", ", and \"", path,
                   "\" is no language model.");
  }
  if (!options.ignored_fields.empty()) return invalid("Fields are ignored in a language model's configuration only.");
  ConvertOptions onnx;
  onnx.bindings = options.bindings;
  onnx.constants = options.constants;
  onnx.parameters = options.parameters;
  onnx.expand = options.weights.expand;
  onnx.lengths = options.lengths;
  onnx.opens = options.opens;
  onnx.train_buffers = options.train_buffers;
  for (const auto& [name, file] : options.contents) {
    GRAFT_TRY_ASSIGN(HostTensor tensor, read_contents(files, file));
    onnx.fixed_inputs.emplace(name, std::move(tensor));
  }
  if (!options.weights_file.empty()) {
    if (tflite) return invalid("Weights of another file are for an ONNX graph, and \"", path, "\" is none.");
    GRAFT_TRY_ASSIGN(OnnxGraph graph, load_onnx(path, onnx.limits));
    GRAFT_TRY(gather_weights(graph));
    GRAFT_TRY(apply_weights(files, options.weights_file, graph));
    const auto slash = path.find_last_of('/');
    GRAFT_TRY_ASSIGN(
        Converted converted,
        convert_onnx(std::move(graph), slash == std::string::npos ? path : path.substr(slash + 1), onnx, &report));
    return ConvertedFile{{}, std::move(converted.model)};
  }
  GRAFT_TRY_ASSIGN(Converted converted, tflite ? convert_tflite(files, path, {options.keep_grid}, onnx, &report)
                                               : convert_onnx(path, onnx, &report));
  return ConvertedFile{{}, std::move(converted.model)};
}

}  // namespace graft::convert

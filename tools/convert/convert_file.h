// A model of any format that graft reads: what `graft convert` and the C interface share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "platform/os/file.h"
#include "runtime/model/model.h"
#include "tools/convert/common/known_fields.h"
#include "tools/convert/common/report.h"
#include "tools/convert/decoder/decoder_weights.h"
#include "tools/convert/onnx/import/convert_onnx.h"

namespace graft::convert {

struct FileOptions {
  Bindings bindings;                    ///< of an ONNX file's named dimensions
  std::vector<std::string> constants;   ///< patterns of an ONNX file's float tensors that are not trained
  std::vector<std::string> parameters;  ///< of those that are, although they look like constants
  bool train_buffers = false;           ///< what looks like a buffer is trained all the same
  std::vector<OpenAxis> opens;          ///< axes of size 1 of an ONNX or TFLite file's inputs that become symbols
  std::map<std::string, std::string> contents;  ///< .npy files with what inputs hold, once and for all
  WeightOptions weights;                        ///< of a language model
  std::string imatrix = {};                     ///< a file with WeightOptions::importance; empty: none
  std::string weights_file;                     ///< a PyTorch checkpoint or safetensors, for an ONNX graph; empty: none
  bool keep_grid = false;  ///< a quantized TFLite file's values are rounded as it says: evaluation only
  std::map<std::string, std::int64_t, std::less<>> lengths;  ///< ConvertOptions::lengths
  IgnoredFields ignored_fields;  ///< of a language model's configuration
};

struct ConvertedFile {
  std::vector<std::unique_ptr<os::MappedFile>> files;  ///< the model's weights may lie in these
  Model model;
};

/// invalid_argument: `symbol` is no name of a dimension.
Result<OpenAxis> open_axis(const std::string& symbol, const std::string& input, std::size_t axis);

/// An ONNX file, a TFLite file, a GGUF file, or a Hugging Face folder. `report` is filled as far as the file was
/// understood, also where the model does not convert.
Result<ConvertedFile> convert_file(os::FileSystem& files, const std::string& path, const FileOptions& options,
                                   Report& report);

}  // namespace graft::convert

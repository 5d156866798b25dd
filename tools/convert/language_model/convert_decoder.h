// Language models: Hugging Face folders and GGUF files -> graft models.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "platform/os/file.h"
#include "runtime/model/model.h"
#include "tools/convert/common/known_fields.h"
#include "tools/convert/common/report.h"
#include "tools/convert/decoder/decoder_weights.h"

namespace graft::convert {

struct ConvertedDecoder {
  std::vector<std::unique_ptr<os::MappedFile>> files;  ///< the model's weights may lie in these
  Model model;
  Report report;
};

/// A folder with config.json, *.safetensors and, for text, tokenizer.json or tokenizer.model. The graph takes "tokens"
/// (i32 [batch, seq]) and gives "logits"; parameters have their names in the folder.
/// Errors name the file and what is missing, contradictory or unsupported.
/// `ignored`: fields of config.json, tokenizer_config.json and generation_config.json that are passed over.
Result<ConvertedDecoder> convert_folder(os::FileSystem& files, const std::string& folder,
                                        const WeightOptions& options = {}, const IgnoredFields& ignored = {});

/// The same for a GGUF file; parameters have the names that they have in Hugging Face folders.
/// `ignored`: keys of its metadata.
Result<ConvertedDecoder> convert_gguf(os::FileSystem& files, const std::string& path,
                                      const WeightOptions& options = {}, const IgnoredFields& ignored = {});
/// The same from memory that outlives the result; `name` stands for the file.
Result<ConvertedDecoder> convert_gguf(std::span<const std::byte> bytes, const std::string& name,
                                      const WeightOptions& options = {}, const IgnoredFields& ignored = {});

/// The graph that a config.json describes, with weights that have shapes and no contents: to be planned, not run.
Result<ConvertedDecoder> shapes_of_config(os::FileSystem& files, const std::string& path, WeightOptions options,
                                          const IgnoredFields& ignored = {});

/// Whether a file begins as GGUF files do.
bool is_gguf(os::FileSystem& files, const std::string& path);

}  // namespace graft::convert

// graft models -> Hugging Face folders, GGUF files, safetensors files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "platform/os/file.h"
#include "runtime/model/model.h"
#include "tools/convert/common/blocks.h"

namespace graft::convert {

struct ExportOptions {
  /// What matrices become; nullopt: what they are, and f32 where the file has no such type. Vectors stay f32 in GGUF
  /// files (whose readers ask for it) and become this elsewhere.
  std::optional<DType> dtype = {};
  /// For blocks of GGUF files: what errors of each matrix's columns weigh; those
  /// of others weigh the same. Null: by the extremes of each block, without a search.
  const Importance* importance = nullptr;
};

struct ExportReport {
  std::vector<std::string> files;  ///< that were written, as paths
  std::size_t tensors = 0;
  std::uint64_t bytes = 0;  ///< of the tensors
  std::vector<BlockError> blocks;
  std::vector<std::string> notes;  ///< what a user should know, one sentence each

  std::string json() const;
};

// The tensors have the names, shapes and layout of the source model. Numbers keep their bits unless their type changes
// or the other format stores another number (the weights of Gemma's norms, less one).
// Errors: not_found where the model does not remember what it came from; unsupported, what a format cannot say.

/// config.json, model.safetensors, and the tokenizer's files. The folder is made; files of these names are replaced.
Result<ExportReport> export_folder(os::FileSystem& files, const std::string& folder, const Model& model,
                                   const ExportOptions& options = {});

/// Version 3, with all keys of the GGUF file that it came from, or the keys that llama.cpp needs.
Result<ExportReport> export_gguf(os::FileSystem& files, const std::string& path, const Model& model,
                                 const ExportOptions& options = {});

/// The parameters of any model, statistics that it keeps (batch norm's) and frozen matrices.
Result<ExportReport> export_safetensors(os::FileSystem& files, const std::string& path, const Model& model,
                                        const ExportOptions& options = {});

}  // namespace graft::convert

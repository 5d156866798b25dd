// Low-rank adapters from and to the files of other programs: PEFT folders, GGUF files of type adapter.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "platform/os/file.h"
#include "runtime/model/model.h"
#include "tools/convert/common/known_fields.h"
#include "tools/convert/language_model/export_model.h"

namespace graft::convert {

/// Whether a model file holds adapters and nothing else.
bool is_adapter(const Model& model);

/// A PEFT folder (adapter_config.json, adapter_model.safetensors), a GGUF file of type adapter, or a .graft file: as an
/// adapter file for `base`, whose rows of queries and keys may be ordered otherwise. Numbers of 16 bits become f32.
/// Errors are one sentence: what is missing, contradictory, of another model or (DoRA, biases, embeddings) unsupported.
/// `ignored`: fields of adapter_config.json that are passed over.
Result<Model> open_adapter(os::FileSystem& files, const std::string& path, const Model& base,
                           const IgnoredFields& ignored = {});

/// open_adapter(), which must fit `base`, as a .graft file has it: for that base and no other. `any_base`: also where
/// it was made for other weights.
Result<Model> convert_adapter(os::FileSystem& files, const std::string& path, const Model& base, bool any_base = false,
                              const IgnoredFields& ignored = {});

// The two readers, for files that are there already. `bytes` need not outlive the result.
// `added_tokens`: a folder's added_tokens.json, which has the texts of new tokens; empty: none.
Result<Model> read_peft(std::string_view config, std::span<const std::byte> safetensors, const Model& base,
                        std::string_view added_tokens = {}, const IgnoredFields& ignored = {});
Result<Model> read_gguf_adapter(std::span<const std::byte> bytes, const Model& base);

/// adapter_config.json and adapter_model.safetensors, as PEFT writes them. Adapters of models that are no language
/// models keep their layers' names. `options`: f32 (default), f16 or bf16.
Result<ExportReport> export_peft(os::FileSystem& files, const std::string& folder, const Model& adapter,
                                 const ExportOptions& options = {});

/// As llama.cpp reads them. unsupported: an adapter of no language model, or layers whose alphas differ.
Result<ExportReport> export_gguf_adapter(os::FileSystem& files, const std::string& path, const Model& adapter,
                                         const ExportOptions& options = {});

}  // namespace graft::convert

// What belongs to a language model besides its weights: tokenizer, tokens that end a text, chat template, context.
#pragma once

#include <string>

#include "runtime/model/model.h"
#include "tools/convert/common/known_fields.h"
#include "tools/convert/common/report.h"
#include "tools/convert/decoder/decoder_spec.h"
#include "tools/convert/gguf/gguf.h"

namespace graft::convert {

// A model without a usable tokenizer still runs and trains on ids: what is wrong becomes a note of the report.

/// The configurations of a folder; null where a file is not there or not JSON.
struct FolderText {
  Json config;      ///< config.json
  Json tokenizer;   ///< tokenizer_config.json
  Json generation;  ///< generation_config.json
};
/// `ignored`, `found`: as clear_fields() has them.
FolderText read_folder_text(os::FileSystem& files, const std::string& folder, Json config, const IgnoredFields& ignored,
                            std::vector<std::string>& found);
/// unsupported: a field of tokenizer_config.json or generation_config.json that graft does not follow.
Status add_folder_text(os::FileSystem& files, const std::string& folder, const FolderText& text,
                       const DecoderSpec& spec, Model& model, Report& report);
void add_gguf_text(const GgufFile& file, const DecoderSpec& spec, Model& model, Report& report);

/// Sets metadata to the part of `text` that it can hold: UTF-8 without control characters (a file's text may be
/// anything). Nothing is set where nothing is left.
void set_metadata(Model& model, std::string_view key, std::string_view text);

}  // namespace graft::convert

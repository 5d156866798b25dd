// The folder of a model of sentence-transformers: modules.json names what follows the network.
#pragma once

#include <string>

#include "platform/os/file.h"
#include "runtime/model/model.h"
#include "tools/convert/common/report.h"

namespace graft::convert {

/// Remembers the pooling and whether vectors are brought to length 1 (runtime/language/text_inputs.h). Nothing where
/// there is no modules.json; what it asks for and graft does not have is a note. Dense layers without an activation
/// become part of an encoder: its output kSentenceOutput.
void add_sentence_modules(os::FileSystem& files, const std::string& folder, Model& model, Report& report);

/// Dense layers that the model has of such a folder.
int dense_layers(const Model& model);

/// The other way round: modules.json, the pooling's configuration and Dense layers, where the model remembers a
/// pooling. `width`: of a vector. Paths of the files are added to `written`.
Status write_sentence_modules(os::FileSystem& files, const std::string& folder, const Model& model, std::int64_t width,
                              std::vector<std::string>& written);

}  // namespace graft::convert

// Adapters of files, whatever their format, on a model of the C interface.
#pragma once

#include <string>

#include "tools/graft/shared/adapter_flags.h"
#include "tools/graft/shared/public_api.h"

namespace graft::cli {

/// Puts those of --adapter on the model of the file `path`; nothing where there are none.
Status put_adapters(graft_context* context, graft_model* model, const std::string& path, const AdapterFlags& adapter);

/// open_model() and put_adapters().
Result<Owned<graft_model>> open_adapted(graft_context* context, const std::string& path, const AdapterFlags& adapter,
                                        graft_weight_check check);

inline constexpr const char* kAddTokensHelp =
    "Add tokens to the vocabulary, whose rows of embedding and head are trained and which no other row changes for: "
    "'<|tool|>,<|end|>', or a file with one on each line (.json: an array)";
/// What --add-tokens says, a list or the name of a file, as graft_model_add_tokens() takes it.
Result<std::string> new_tokens_json(const std::string& text);

}  // namespace graft::cli

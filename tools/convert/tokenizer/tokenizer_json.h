// The parts of a tokenizer.json around its model.
#pragma once

#include "platform/base/status.h"
#include "runtime/text/vocabulary.h"
#include "tools/convert/common/json_access.h"

namespace graft::convert {

/// Reads normalizer, pre_tokenizer and post_processor into `out`, whose tokens are complete.
/// unsupported: a step that graft does not have, by name.
Status read_json_steps(const Json& document, text::Vocabulary& out);

/// The regular expression of a step, as models write it into their files.
std::string_view split_pattern(text::Split split);

}  // namespace graft::convert

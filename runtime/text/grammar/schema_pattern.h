// Regular expressions of JSON schemas, as parts of a grammar.
#pragma once

#include <string>
#include <string_view>

#include "platform/base/status.h"

namespace graft::text {

/// What stands between the quotes of a JSON string that matches: a part of a grammar's alternative. Characters that
/// JSON escapes occur only where the pattern spells them out. unsupported: lookaround, references back, anchors and
/// word borders within the pattern.
Result<std::string> grammar_of_pattern(std::string_view pattern);

/// A text as a grammar's literal, with its quotes.
std::string grammar_literal(std::string_view text);

}  // namespace graft::text

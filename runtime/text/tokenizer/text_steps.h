// Steps that change a text, as functions. Bytes that are not valid UTF-8 stay as they are.
#pragma once

#include <string>
#include <string_view>

#include "runtime/text/tokenizer/vocabulary.h"

namespace graft::text {

/// Steps that look at one character at a time: lower_case to space_ideographs and nmt.
std::string by_character(StepKind kind, std::string_view text);
std::string stripped(std::string_view text, bool left, bool right);
std::string collapsed_spaces(std::string_view text);
/// Each byte as its printable character.
std::string in_byte_alphabet(std::string_view text);

}  // namespace graft::text

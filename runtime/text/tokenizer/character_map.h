// SentencePiece's precompiled character map: longest matches of a double-array trie, replaced by strings.
#pragma once

#include <string>
#include <string_view>

#include "platform/base/status.h"

namespace graft::text {

/// Checks that `map` is well-formed: corrupt where its sizes contradict each other.
Status check_character_map(std::string_view map);

/// `text` with the replacements of `map`, which passed check_character_map. An empty map changes nothing.
std::string apply_character_map(std::string_view map, std::string_view text);

/// The same as Hugging Face's library has it: a grapheme of fewer than six bytes is replaced whole where the map has a
/// beginning of it, the shortest there is; other graphemes character by character.
std::string apply_to_graphemes(std::string_view map, std::string_view text);

}  // namespace graft::text

// The printable alphabet in which byte-level BPE vocabularies are written: one character for each of the 256 bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace graft::text {

/// The character for a byte: printable Latin-1 stands for itself, the other bytes are U+0100 and on, in order.
char32_t byte_character(unsigned char byte);

/// The bytes that `text` stands for; nullopt where it holds a character outside of the alphabet.
std::optional<std::string> alphabet_bytes(std::string_view text);

/// The byte of a token such as <0x0A>; nullopt where it is no such token.
std::optional<unsigned char> byte_token_value(std::string_view text);

}  // namespace graft::text

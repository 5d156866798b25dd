#include "runtime/text/tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "runtime/text/unicode/unicode.h"

namespace graft::text {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr int kAlphabetEnd = 0x144;  // 0x100 and the 68 bytes that do not stand for themselves

struct Alphabet {
  std::array<std::uint16_t, 256> character{};
  std::array<std::int16_t, kAlphabetEnd> byte{};
};

constexpr Alphabet make_alphabet() {
  Alphabet out;
  for (auto& byte : out.byte) byte = -1;
  std::uint16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    const std::uint16_t character = stands_for_itself(byte) ? static_cast<std::uint16_t>(byte) : next++;
    out.character[static_cast<std::size_t>(byte)] = character;
    out.byte[character] = static_cast<std::int16_t>(byte);
  }
  return out;
}

constexpr Alphabet kAlphabet = make_alphabet();

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

char32_t byte_character(unsigned char byte) { return kAlphabet.character[byte]; }

std::optional<std::string> alphabet_bytes(std::string_view text) {
  std::string out;
  for (const CodePoint& point : code_points(text)) {
    if (point.value >= kAlphabetEnd || kAlphabet.byte[point.value] < 0) return std::nullopt;
    out += static_cast<char>(kAlphabet.byte[point.value]);
  }
  return out;
}

std::optional<unsigned char> byte_token_value(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const int high = hex_digit(text[3]);
  const int low = hex_digit(text[4]);
  if (high < 0 || low < 0) return std::nullopt;
  return static_cast<unsigned char>(high << 4 | low);
}

}  // namespace graft::text

// How a checkpoint store stands in one input: a row of files, each a byte for the kind (0 ROOT, 1 snapshot, 2 segment,
// 3 journal; plus 128: its checksums are left alone), one for the number, two for the size, and the contents.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/checkpoint/format.h"

namespace graft::fuzz {

struct StoreFile {
  std::uint8_t kind_byte = 0;
  std::uint8_t number = 0;
  std::string bytes;

  checkpoint::FileKind kind() const {
    using enum checkpoint::FileKind;
    return std::array{root, snapshot, segment, journal}[kind_byte % 4];
  }
  bool sealed() const { return kind_byte < 128; }
};

std::vector<StoreFile> parse_store(std::string_view input);
/// A journal's whole frames, with their headers.
std::vector<std::string> frames_of(std::string_view journal);
/// Files, headers, tables, chunks and frames; checksums and hashes of chunks are those of what they hold.
std::string mutate_store(std::string_view input, class Random& random);

/// Writes a number over what stands at `at`; requires room for it.
template <class T>
void set_number(std::string& bytes, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes[at + i] = static_cast<char>(value >> (8 * i));
}

}  // namespace graft::fuzz

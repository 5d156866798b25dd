#include "runtime/data/cursor.h"

namespace graft::data {
namespace {

constexpr std::uint64_t kVersion = 1;
constexpr std::size_t kFixedWords = 9;

void put(std::vector<std::byte>& out, std::uint64_t word) {
  for (int shift = 0; shift < 64; shift += 8) out.push_back(static_cast<std::byte>(word >> shift));
}

/// 0: as they are; 1: shuffled; 2: by keys, which versions before this one refuse.
std::uint64_t order_of(const Cursor& cursor) { return cursor.keyed ? 2 : cursor.shuffle ? 1 : 0; }

std::uint64_t get(std::span<const std::byte> bytes, std::size_t index) {
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < 8; ++i) word |= static_cast<std::uint64_t>(bytes[index * 8 + i]) << (8 * i);
  return word;
}

}  // namespace

std::vector<std::byte> serialize(const Cursor& cursor) {
  std::vector<std::byte> out;
  out.reserve((kFixedWords + cursor.buffered.size()) * 8);
  for (const std::uint64_t word :
       {kVersion, cursor.seed, order_of(cursor), cursor.samples, cursor.epoch, cursor.position, cursor.stream_position,
        std::uint64_t{cursor.stream_ended}, std::uint64_t{cursor.buffered.size()}}) {
    put(out, word);
  }
  for (const std::uint64_t position : cursor.buffered) put(out, position);
  return out;
}

Result<Cursor> parse_cursor(std::span<const std::byte> bytes) {
  if (bytes.size() < kFixedWords * 8 || bytes.size() % 8 != 0) {
    return corrupt("A data cursor has ", bytes.size(), " bytes; it has at least ", kFixedWords * 8,
                   " and a multiple of 8.");
  }
  if (get(bytes, 0) != kVersion) {
    return corrupt("A data cursor has version ", get(bytes, 0), "; this graft reads version ", kVersion, ".");
  }
  Cursor cursor;
  cursor.seed = get(bytes, 1);
  cursor.samples = get(bytes, 3);
  cursor.epoch = get(bytes, 4);
  cursor.position = get(bytes, 5);
  cursor.stream_position = get(bytes, 6);
  if (get(bytes, 2) > 2) return corrupt("A data cursor has the order number ", get(bytes, 2), "; 0 to 2 are known.");
  if (get(bytes, 7) > 1) return corrupt("A flag of a data cursor is neither 0 nor 1.");
  cursor.shuffle = get(bytes, 2) != 0;
  cursor.keyed = get(bytes, 2) == 2;
  cursor.stream_ended = get(bytes, 7) != 0;
  const std::uint64_t buffered = get(bytes, 8);
  if (buffered != bytes.size() / 8 - kFixedWords) {
    return corrupt("A data cursor says that ", buffered, " samples wait in its shuffle buffer, but holds ",
                   bytes.size() / 8 - kFixedWords, ".");
  }
  if (cursor.samples != Cursor::kUnknownSize && cursor.position > cursor.samples) {
    return corrupt("A data cursor stands at sample ", cursor.position, " of ", cursor.samples, ".");
  }
  for (std::size_t i = 0; i < buffered; ++i) cursor.buffered.push_back(get(bytes, kFixedWords + i));
  return cursor;
}

}  // namespace graft::data

#include "runtime/model/format.h"

#include <array>
#include <cstring>

#include "platform/base/hash.h"

namespace graft::model_format {
namespace {

// Offsets of the header's fields; bytes 0 to 7 are FlatBuffers' own (where the root table is, file identifier).
constexpr std::size_t kIdentifierAt = 4;
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kFlagsAt = 12;
constexpr std::size_t kRootBytesAt = 16;
constexpr std::size_t kFileBytesAt = 24;
constexpr std::size_t kReservedAt = 32;
constexpr std::size_t kChecksumAt = 48;
constexpr std::string_view kIdentifier = "GRFT";

template <typename T>
T get(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <typename T>
void put(std::span<std::byte> bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

Hash128 root_checksum(std::span<const std::byte> root) {
  const std::array parts = {root.first(kChecksumAt), root.subspan(kHeaderBytes)};
  return hash128(parts);
}

/// Length of the UTF-8 sequence at the start of `text`, 0 where it is malformed. No surrogates, no overlong forms.
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  unsigned code = lead & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0u) != 0x80u) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  constexpr unsigned kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < kSmallest[length] || code > 0x10ffff || surrogate ? 0 : length;
}

}  // namespace

Result<std::span<const std::byte>> open_root(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) {
    return corrupt("It has ", bytes.size(), " bytes; a model file has at least the ", kHeaderBytes, " of its header.");
  }
  if (std::memcmp(bytes.data() + kIdentifierAt, kIdentifier.data(), kIdentifier.size()) != 0) {
    return corrupt("It is not a graft model file: bytes 4 to 7 are not \"", kIdentifier, "\".");
  }
  if (const auto version = get<std::uint32_t>(bytes, kVersionAt); version != kVersion) {
    return unsupported("It is of format version ", version, "; this build reads version ", kVersion, ".");
  }
  if (get<std::uint32_t>(bytes, kFlagsAt) != 0 || get<std::uint64_t>(bytes, kReservedAt) != 0 ||
      get<std::uint64_t>(bytes, kReservedAt + 8) != 0) {
    return unsupported("Its header asks for features that this build does not know.");
  }
  if (const auto stated = get<std::uint64_t>(bytes, kFileBytesAt); stated != bytes.size()) {
    return corrupt("It has ", bytes.size(), " bytes, but its header says ", stated, ": it is ",
                   stated > bytes.size() ? "cut short" : "followed by something else", ".");
  }
  const auto root_bytes = get<std::uint64_t>(bytes, kRootBytesAt);
  if (root_bytes <= kHeaderBytes || root_bytes > bytes.size() || root_bytes > kMaxRootBytes) {
    return corrupt("Its header says that the root has ", root_bytes, " bytes; more than ", kHeaderBytes,
                   ", at most the file's ", bytes.size(), " and at most ", kMaxRootBytes, " are possible.");
  }
  const auto root = bytes.first(static_cast<std::size_t>(root_bytes));
  const Hash128 stated{get<std::uint64_t>(bytes, kChecksumAt), get<std::uint64_t>(bytes, kChecksumAt + 8)};
  if (const Hash128 actual = root_checksum(root); actual != stated) {
    return corrupt("Its root is damaged: the checksum is ", hash_text(actual), ", and ", hash_text(stated),
                   " is expected.");
  }
  return root;
}

std::string add_header(std::string_view flat_buffer) {
  // Offsets inside a FlatBuffer are relative to where they stand. So the header may stand between the first eight
  // bytes and the rest, and only the first of all offsets, which passes over it, changes.
  GRAFT_CHECK(flat_buffer.size() > 8);
  std::string root(flat_buffer.substr(0, 8));
  root.resize(kHeaderBytes);
  root.append(flat_buffer.substr(8));
  const auto bytes = std::as_writable_bytes(std::span(root));
  put(bytes, 0, static_cast<std::uint32_t>(get<std::uint32_t>(bytes, 0) + kHeaderBytes - 8));
  put(bytes, kVersionAt, kVersion);
  return root;
}

void seal(std::span<std::byte> root, std::uint64_t file_bytes) {
  put(root, kRootBytesAt, static_cast<std::uint64_t>(root.size()));
  put(root, kFileBytesAt, file_bytes);
  const Hash128 checksum = root_checksum(root);
  put(root, kChecksumAt, checksum.low);
  put(root, kChecksumAt + 8, checksum.high);
}

bool is_text(std::string_view text, bool lines) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    const auto c = static_cast<unsigned char>(text[0]);
    const bool break_or_tab = c == '\n' || c == '\t';
    if ((c < 0x20 && !(lines && break_or_tab)) || c == 0x7f) return false;
    text.remove_prefix(length);
  }
  return true;
}

Status check_name(std::string_view name, std::string_view what) {
  if (name.empty()) return invalid(what, " is empty.");
  if (name.size() > kMaxNameBytes) {
    return invalid(what, " has ", name.size(), " bytes; the limit is ", kMaxNameBytes, ".");
  }
  if (!is_text(name, false)) return invalid(what, " is not UTF-8 text without control characters.");
  return ok_status();
}

Status check_count(std::uint64_t count, std::uint64_t limit, std::string_view what) {
  if (count <= limit) return ok_status();
  return invalid("It has ", count, " ", what, "; the limit is ", limit, ".");
}

}  // namespace graft::model_format

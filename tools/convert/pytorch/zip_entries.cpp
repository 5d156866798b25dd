#include "tools/convert/pytorch/zip_entries.h"

#include <algorithm>
#include <cstring>

#include "platform/base/byte_reader.h"
#include "platform/base/text.h"

namespace graft::convert {
namespace {

constexpr std::size_t kEndBytes = 22, kEnd64Bytes = 56, kLocatorBytes = 20, kMaxComment = 65535;
constexpr std::uint32_t kEndMark = 0x06054b50, kEnd64Mark = 0x06064b50, kLocatorMark = 0x07064b50;
constexpr std::uint32_t kDirectoryMark = 0x02014b50, kLocalMark = 0x04034b50;
constexpr std::uint16_t kWideField = 1;  // zip64

template <class T>
T at(std::span<const std::byte> bytes, std::uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

struct Directory {
  std::uint64_t offset = 0, entries = 0;
};

Result<Directory> find_directory(std::span<const std::byte> bytes) {
  if (bytes.size() >= kEndBytes) {
    const std::size_t lowest = bytes.size() - std::min(bytes.size(), kEndBytes + kMaxComment);
    for (std::size_t end = bytes.size() - kEndBytes + 1; end-- > lowest;) {
      if (at<std::uint32_t>(bytes, end) != kEndMark) continue;
      Directory found{at<std::uint32_t>(bytes, end + 16), at<std::uint16_t>(bytes, end + 10)};
      if (found.offset != 0xffffffffu && found.entries != 0xffffu) return found;
      if (end < kLocatorBytes || at<std::uint32_t>(bytes, end - kLocatorBytes) != kLocatorMark) return found;
      const auto wide = at<std::uint64_t>(bytes, end - kLocatorBytes + 8);
      if (!in_bounds(wide, kEnd64Bytes, bytes.size()) || at<std::uint32_t>(bytes, wide) != kEnd64Mark) break;
      return Directory{at<std::uint64_t>(bytes, wide + 48), at<std::uint64_t>(bytes, wide + 32)};
    }
  }
  return corrupt("It is no complete zip archive: the list of its entries is missing.");
}

/// Sizes and offset that did not fit 32 bits stand in an extra field, in this order.
Status read_wide(std::span<const std::byte> extra, std::uint64_t& size, std::uint64_t& packed, std::uint64_t& offset) {
  ByteReader in(extra);
  while (in.left() >= 4) {
    GRAFT_TRY_ASSIGN(const auto kind, in.number<std::uint16_t>());
    GRAFT_TRY_ASSIGN(const auto length, in.number<std::uint16_t>());
    GRAFT_TRY_ASSIGN(const auto field, in.take(length));
    if (kind != kWideField) continue;
    ByteReader wide(field);
    for (std::uint64_t* number : {&size, &packed, &offset}) {
      if (*number != 0xffffffffu) continue;
      GRAFT_TRY_ASSIGN(*number, wide.number<std::uint64_t>());
    }
  }
  return {};
}

}  // namespace

Result<ZipEntries> read_zip_entries(std::span<const std::byte> bytes) {
  GRAFT_TRY_ASSIGN(const Directory directory, find_directory(bytes));
  if (directory.offset > bytes.size()) return corrupt("The list of the archive's entries lies outside of it.");
  ByteReader in(bytes.subspan(directory.offset));
  ZipEntries out;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    GRAFT_TRY_ASSIGN(const auto head, in.take(46));
    if (at<std::uint32_t>(head, 0) != kDirectoryMark) return corrupt("Entry ", i, " of the archive is damaged.");
    std::uint64_t packed = at<std::uint32_t>(head, 20), size = at<std::uint32_t>(head, 24);
    std::uint64_t offset = at<std::uint32_t>(head, 42);
    GRAFT_TRY_ASSIGN(const std::string_view name, in.text(at<std::uint16_t>(head, 28)));
    GRAFT_TRY_ASSIGN(const auto extra, in.take(at<std::uint16_t>(head, 30)));
    GRAFT_TRY(in.take(at<std::uint16_t>(head, 32)).status());
    GRAFT_TRY(read_wide(extra, size, packed, offset));
    if ((at<std::uint16_t>(head, 8) & 1) != 0 || at<std::uint16_t>(head, 10) != 0 || size != packed) {
      return unsupported("The entry \"", shown(name), "\" of the archive is compressed or encrypted.");
    }
    if (!in_bounds(offset, 30, bytes.size()) || at<std::uint32_t>(bytes, offset) != kLocalMark) {
      return corrupt("The entry \"", shown(name), "\" of the archive is not where its list says.");
    }
    const std::uint64_t start =
        offset + 30 + at<std::uint16_t>(bytes, offset + 26) + at<std::uint16_t>(bytes, offset + 28);
    if (!in_bounds(start, size, bytes.size())) {
      return corrupt("The entry \"", shown(name), "\" of the archive ends outside of it.");
    }
    out.emplace(name, bytes.subspan(start, size));
  }
  return out;
}

}  // namespace graft::convert

// A zip archive whose one entry is stored, as an app's package holds an asset that is mapped from it.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace graft::test {

struct StoredZip {
  std::string bytes;         ///< the whole archive
  std::uint64_t offset = 0;  ///< of the entry's contents in it
};

/// `padding`: bytes of extra field before the contents, as zipalign adds them to move an entry.
inline StoredZip stored_zip(std::string_view name, std::string_view contents, std::uint16_t padding) {
  const auto number = [](std::uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
    return out;
  };
  const auto size = static_cast<std::uint32_t>(contents.size());
  const auto sum = static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(contents.data()), size));
  // Version 1.0, no flags, method 0 (stored), no time.
  const std::string entry = number(10, 2) + number(0, 2) + number(0, 2) + number(0, 4) + number(sum, 4) +
                            number(size, 4) + number(size, 4) + number(name.size(), 2);
  StoredZip zip;
  zip.bytes = "PK\3\4" + entry + number(padding, 2) + std::string(name) + std::string(padding, '\0');
  zip.offset = zip.bytes.size();
  zip.bytes += contents;
  const std::uint64_t directory = zip.bytes.size();
  zip.bytes += "PK\1\2" + number(10, 2) + entry + number(0, 2) + number(0, 2) + number(0, 2) + number(0, 2) +
               number(0, 4) + number(0, 4) + std::string(name);
  const std::uint64_t directory_bytes = zip.bytes.size() - directory;
  zip.bytes += "PK\5\6" + number(0, 2) + number(0, 2) + number(1, 2) + number(1, 2) + number(directory_bytes, 4) +
               number(directory, 4) + number(0, 2);
  return zip;
}

}  // namespace graft::test

#include "tests/support/files/tar.h"

#include <cstdlib>
#include <utility>

#include "platform/base/checked.h"
#include "runtime/data/gzip.h"

namespace graft::test {

Result<std::map<std::string, std::vector<std::byte>>> read_tar_gz(const std::string& path) {
  constexpr std::uint64_t kLimit = std::uint64_t{1} << 30;
  GRAFT_TRY_ASSIGN(const HostBuffer archive, data::read_unpacked(os::system_files(), path, kLimit));
  const std::span<const std::byte> bytes = archive.bytes();
  std::map<std::string, std::vector<std::byte>> files;
  constexpr std::size_t kBlock = 512;
  std::string long_name;  // of the next file, where a header of its own says it
  for (std::size_t at = 0; at + kBlock <= bytes.size();) {
    const char* header = reinterpret_cast<const char*>(bytes.data() + at);
    if (header[0] == '\0') break;
    const auto field = [&](std::size_t offset, std::size_t length) {
      const std::string text(header + offset, length);
      return text.substr(0, text.find('\0'));
    };
    std::string name = field(0, 100);
    if (const std::string prefix = field(345, 155); !prefix.empty()) name = prefix + "/" + name;
    const std::uint64_t size = std::strtoull(field(124, 12).c_str(), nullptr, 8);
    at += kBlock;
    if (!in_bounds(at, size, bytes.size())) return corrupt("The archive \"", path, "\" is cut short.");
    const char type = header[156];
    const std::string text(reinterpret_cast<const char*>(bytes.data() + at), size);
    if (type == 'L') long_name = text.substr(0, text.find('\0'));  // GNU
    if (type == 'x') {                                             // POSIX: lines of "LENGTH path=NAME"
      if (const auto start = text.find(" path="); start != std::string::npos) {
        long_name = text.substr(start + 6, text.find('\n', start) - start - 6);
      }
    }
    if (type == '0' || type == '\0') {
      if (!long_name.empty()) name = std::exchange(long_name, {});
      if (name.starts_with("./")) name = name.substr(2);
      const auto content = bytes.subspan(at, size);
      files[name].assign(content.begin(), content.end());
    }
    at += (size + kBlock - 1) / kBlock * kBlock;
  }
  return files;
}

}  // namespace graft::test

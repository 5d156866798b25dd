#include "platform/os/entropy.h"

#include "platform/os/file.h"

namespace graft::os {

// Not getentropy(), which Android has from API level 28 on only.
Status fill_with_entropy(std::span<std::byte> bytes) {
  const std::string path = "/dev/urandom";
  GRAFT_TRY_ASSIGN(const auto file, system_files().open(path, OpenMode::read));
  return read_exactly(*file, 0, bytes, path);
}

}  // namespace graft::os
